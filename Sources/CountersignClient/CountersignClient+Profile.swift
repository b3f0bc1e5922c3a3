import CountersignAPI
import Foundation

extension CountersignClient {
  /// The verdict on the user, for a settings page: product, dates, whether it renews. An unchanged one is not sent twice.
  public func profile() async throws -> EntitlementResponse {
    try checkSignedIn()
    let response = try await service.send(
      "GET", "/v1/profiles/me", headers: profileTag.map { ["If-None-Match": $0.tag] } ?? [:])
    if response.status == 304, let profileTag { return profileTag.profile }
    let profile = try response.decoded(EntitlementResponse.self, now: options.now())
    profileTag = response.headers["etag"].map { ($0, profile) }
    return profile
  }
}
