import HTTPTransport
import Validation

extension ServiceConfiguration {
  /// The credentials that RevenueCat shows with its webhooks.
  struct RevenueCat: Hashable, Sendable {
    /// Values of the header `Authorization`, of which one has to come.
    let authorizations: [Secret]
    /// Secrets of which one has to have signed.
    let signingSecrets: [Secret]

    /// - Returns: `nil` without either, and if anything is invalid, which is reported.
    init?(_ reader: inout ConfigurationReader) {
      let problemsBefore = reader.findings.problems.count
      authorizations = reader.secretFiles(
        "revenuecat.authorization_file", .header,
        "File with the `Authorization` header of RevenueCat's webhooks, word for word as in its dashboard; two "
          + "during a change")
      signingSecrets = reader.secretFiles(
        "revenuecat.signing_secret_file", .word,
        "File with the secret that signs RevenueCat's webhooks; two during a change. With it the signature is "
          + "required, and so is the header if both are set. Without either there is no "
          + "`/v1/notifications/revenuecat`")
      guard reader.findings.problems.count == problemsBefore, !authorizations.isEmpty || !signingSecrets.isEmpty
      else { return nil }
    }

    var secrets: RevenueCatSecrets {
      RevenueCatSecrets(authorizations: authorizations.map(\.exposed), signingSecrets: signingSecrets.map(\.exposed))
    }
  }
}
