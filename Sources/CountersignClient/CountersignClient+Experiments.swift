import CountersignAPI
import Foundation

extension CountersignClient {
  /// The user's variant of an experiment, as the service has it; `nil` for an experiment that its catalog lacks.
  ///
  ///     let variant = (try? await client.variant(of: "paywall_headline")) ?? "control"
  ///     show(headlines[variant])
  ///     try? await client.noteExposure(to: variant, of: "paywall_headline")
  public func variant(of experiment: String) async throws -> String? {
    try checkSignedIn()
    return try await answer(VariantsAnswer.self, to: "/v1/profiles/me/access", keptAs: "access").experiments[experiment]
  }

  /// Reports that the user saw a variant. The first report of a user is kept: call it each time the app shows one, also of
  /// a fallback. Where it throws `later`, the report is kept as `track(_:_:)` keeps events.
  public func noteExposure(to variant: String, of experiment: String) async throws {
    try checkSignedIn()
    track(.experimentExposed, ["experiment": .text(experiment), "variant": .text(variant)])
    try await flush()
  }
}
