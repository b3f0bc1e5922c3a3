import Entitlements
import Foundation
import HTTPTransport
import Profiles
import TestSupport
import Testing

/// The user whose row the recorded answers are about.
let userA: UserID = "00000000-0000-4000-8000-00000000000a"

func sampleUpdate(user: UserID = userA, version: Int64 = 100) -> ProfileUpdate {
  ProfileUpdate(
    user: user, version: version, tier: "pro", status: .active,
    expiresAt: Date(millisecondsSince1970: 1_796_083_200_123), originalTransactionID: "otx-1")
}

/// Header and payload in base64url, and a signature that nobody checks here.
func token(payload: String) -> Secret {
  func encode(_ text: String) -> String {
    Data(text.utf8).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
  }
  return Secret("\(encode(#"{"alg":"HS256","typ":"JWT"}"#)).\(encode(payload)).c2lnbmF0dXJl")
}

let serviceToken = token(payload: #"{"role":"service_role","iss":"supabase"}"#)
let secretKey = Secret("sb_secret_0123456789")

func sampleConfiguration(
  key: Secret = secretKey, withVersion: Bool = true
) -> PostgRESTProfileStore.Configuration {
  var configuration = PostgRESTProfileStore.Configuration(url: "https://project.test/rest/v1", key: key)
  if withVersion { configuration.columns.version = PostgRESTName("subscription_version") }
  return configuration
}

/// A transport that gives these answers in this order, and fails the test when asked for more.
func planned(_ answers: Result<TransportResponse, TransportError>...) -> StubTransport {
  StubTransport(answers: answers) { Issue.record("unplanned: \($0.method.rawValue) \($0.url)") }
}

func answer(
  _ status: Int, _ body: String = "", _ headers: [String: String] = [:]
) -> Result<TransportResponse, TransportError> {
  .success(
    TransportResponse(
      status: status, headers: headers.map { TransportHeader($0.key, $0.value) }, body: Array(body.utf8)))
}

/// The row of `userA` as an answer shows it.
func rows(version: String, tier: String = "pro", status: String = "active") -> Result<TransportResponse, TransportError>
{
  let row =
    #"{"id":"\#(userA)","subscription_tier":"\#(tier)","subscription_status":"\#(status)","subscription_version":\#(version)}"#
  return answer(200, "[\(row)]")
}

let noRows = answer(200, "[]")

func problem(
  _ status: Int, _ code: String, message: String = "m", details: String = "d", _ headers: [String: String] = [:]
) -> Result<TransportResponse, TransportError> {
  answer(
    status, #"{"code":"\#(code)","details":"\#(details)","hint":null,"message":"\#(message)"}"#, headers)
}

/// Which of the outcomes, without the trouble in it.
enum OutcomeKind: String {
  case applied, superseded, noSuchProfile, impossibleUserID, refused, misconfigured, unavailable
}

extension ProfileWriteOutcome {
  var kind: OutcomeKind {
    switch self {
    case .applied: .applied
    case .superseded: .superseded
    case .noSuchProfile: .noSuchProfile
    case .impossibleUserID: .impossibleUserID
    case .refused: .refused
    case .misconfigured: .misconfigured
    case .unavailable: .unavailable
    }
  }

  var trouble: ProfileStoreTrouble? {
    switch self {
    case .applied, .superseded, .noSuchProfile: nil
    case .impossibleUserID(let trouble), .refused(let trouble), .misconfigured(let trouble),
      .unavailable(let trouble, _):
      trouble
    }
  }

  var retryAfter: Duration? { if case .unavailable(_, let duration) = self { duration } else { nil } }
}

extension PostgRESTProfileStore {
  /// With a deadline that nothing here looks at.
  func apply(_ update: ProfileUpdate) async -> ProfileWriteOutcome { await apply(update, deadline: .now + .seconds(2)) }
  func check() async -> ProfileStoreCheck { await check(deadline: .now + .seconds(2)) }
}
