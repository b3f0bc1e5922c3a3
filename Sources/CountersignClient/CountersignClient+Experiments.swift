import CountersignAPI
import Foundation

extension CountersignClient {
  /// The user's variant of an experiment, as the service has it; `nil` for an experiment that its catalog lacks.
  ///
  ///     let variant = (try? await client.variant(of: "paywall_headline")) ?? "control"
  ///     show(headlines[variant])
  ///     try? await client.noteExposure(to: variant, of: "paywall_headline")
  public func variant(of experiment: String) async throws -> String? {
    struct Answer: Decodable { var experiments: [String: String] }
    try checkSignedIn()
    let response = try await service.send("GET", "/v1/profiles/me/access")
    return try response.decoded(Answer.self, now: options.now()).experiments[experiment]
  }

  /// Reports that the user saw a variant. The first report of a user is kept: call it each time the app shows one, also of
  /// a fallback.
  public func noteExposure(to variant: String, of experiment: String) async throws {
    try checkSignedIn()
    let report = ExposureReport(experiment: experiment, variant: variant)
    _ = try await service.send("POST", "/v1/events", body: report).decoded(EventsRecorded.self, now: options.now())
  }
}
