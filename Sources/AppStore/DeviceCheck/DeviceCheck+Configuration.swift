package import Cryptography
import Entitlements

import struct FoundationEssentials.Date

extension DeviceCheck {
  /// Apple's servers. A device token is good at one of them, by the build that made it; the store in which its user buys
  /// says nothing about it.
  package enum Server: String, Hashable, Sendable, CaseIterable {
    /// For builds that were distributed.
    case production
    /// For builds that are run from Xcode.
    case development
  }

  package struct Configuration: Sendable {
    package enum Fault: Error, Hashable, Sendable, CustomStringConvertible {
      case teamID, keyID

      package var description: String {
        switch self {
        case .teamID: "The team ID is not one of Apple's: letters and digits only, such as 8MN25XGXVQ."
        case .keyID: "The key ID is not one of Apple's: letters and digits only, such as 2X9R4HXF34."
        }
      }
    }

    package static let apple = (
      production: "https://api.devicecheck.apple.com", development: "https://api.development.devicecheck.apple.com"
    )

    /// `iss` of the token.
    let teamID: String
    /// `kid` of the token.
    let keyID: String
    let key: ES256PrivateKey
    /// Origins; `/v1/…` is appended.
    let productionURL: String
    let developmentURL: String
    /// The largest answer in bytes.
    var answerLimit = 16 * 1_024
    /// A device token is for one request and its repetition.
    var retry = RetryPolicy(attempts: 2)

    /// - Parameter key: a key of the developer account with the service DeviceCheck, not one of App Store Connect.
    package init(
      teamID: String, keyID: String, key: ES256PrivateKey, productionURL: String = apple.production,
      developmentURL: String = apple.development
    ) throws(Fault) {
      guard Self.isID(teamID) else { throw .teamID }
      guard Self.isID(keyID) else { throw .keyID }
      self.teamID = teamID
      self.keyID = keyID
      self.key = key
      self.productionURL = productionURL
      self.developmentURL = developmentURL
    }

    /// Apple's IDs have 10 characters, which nothing promises.
    private static func isID(_ text: String) -> Bool {
      (1...64).contains(text.utf8.count) && text.utf8.allSatisfy { $0.isLetter || $0.isDigit }
    }

    /// Apple replaces its tokens of this kind within the hour, and wants no new one every few minutes.
    static let tokenLifetime: Int64 = 40 * 60

    func token(now: Date) throws(ES256PrivateKey.Failure) -> DeveloperToken {
      try DeveloperToken(key: key, keyID: keyID, issuer: teamID, lifetime: Self.tokenLifetime, now: now)
    }

    func url(of call: DeviceCheckAttempt.Call, at server: Server) -> String {
      let origin =
        switch server {
        case .production: productionURL
        case .development: developmentURL
        }
      return (origin.hasSuffix("/") ? String(origin.dropLast()) : origin) + "/v1/\(call.rawValue)"
    }
  }

  /// The last known state of DeviceCheck, for operators.
  package enum State: String, Hashable, Sendable {
    case unknown
    case answering, unavailable
    /// Apple refuses our key. It stays until Apple answers, or is away.
    case keyRefused = "key_refused"
  }
}

/// One call to DeviceCheck, for log and metrics, without tokens.
package struct DeviceCheckAttempt: Hashable, Sendable {
  package enum Call: String, Hashable, Sendable, CaseIterable {
    case query = "query_two_bits"
    case update = "update_two_bits"
  }

  package var call: Call
  package var server: DeviceCheck.Server
  /// `nil` for an answer.
  package var failure: DeviceCheckError?
  package var duration: Duration
}
