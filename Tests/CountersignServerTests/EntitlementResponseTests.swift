import CountersignAPI
import Entitlements
import Foundation
import NIOCore
import NIOFoundationEssentialsCompat
import Testing

@testable import CountersignServer
@testable import Validation

/// The bytes of a verdict, and of an answer about a feature, are written by hand, member by member.
@Suite struct EntitlementResponseTests {
  private static let moment = Date(millisecondsSince1970: 1_718_452_800_017)

  private static var full: Entitlement {
    var entitlement = Entitlement.none(
      tier: "pro", reason: .noPurchases,
      explanation: Explanation(decidedBy: nil, passedOver: [], evaluatedAt: moment))
    entitlement.expiresAt = moment
    entitlement.accessUntil = Date(millisecondsSince1970: 1_718_452_800_000)
    entitlement.productID = "com.example.app.pro/monthly"
    entitlement.originalTransactionID = "1000000000000000"
    entitlement.environment = .sandbox
    entitlement.willRenew = true
    entitlement.nextProductID = "quote\"backslash\\"
    entitlement.isTrial = true
    entitlement.ownership = .familyShared
    entitlement.evidenceTime = moment
    entitlement.source = .verifyReceipt
    entitlement.isStale = true
    entitlement.isProvisional = true
    return entitlement
  }

  private static var empty: Entitlement {
    .none(
      tier: "free", reason: .noPurchases,
      explanation: Explanation(decidedBy: nil, passedOver: [], evaluatedAt: nil))
  }

  @Test(arguments: [full, empty], [true, false])
  func `a verdict is written as the encoder writes it`(entitlement: Entitlement, isFromLedger: Bool) throws {
    for write in Validation.ProfileWrite.allCases {
      for user in ["user-1", "é – 😀", "a/b"] {
        let body = EntitlementResponse(
          user: UserID(user), entitlement: entitlement, isFromLedger: isFromLedger, write: write)
        let written = String(buffer: JSONBody.write(body.writeMembers))
        #expect(written == String(buffer: JSONBody.encode(body)))
        // A terminal shows what comes next on a line of its own.
        #expect(written.hasSuffix("}\n") && written.count { $0 == "\n" } == 1)
        #expect(try JSONSerialization.jsonObject(with: Data(written.utf8)) is [String: Any])
      }
    }
  }

  @Test(arguments: [
    FeatureState(
      kind: .meter, isAllowed: false, isMoreAllowed: true, current: 7, limit: 9, remaining: 2, resetsAt: moment,
      upgradeTo: "pro/\"team\""),
    FeatureState(kind: .flag, isAllowed: true, isMoreAllowed: false),
  ])
  func `an answer about a feature is written as the encoder writes it`(state: FeatureState) {
    let body = FeatureResponse(feature: "é – 😀", tier: "a\\b", state: state)
    #expect(String(buffer: JSONBody.write(body.writeMembers)) == String(buffer: JSONBody.encode(body)))
  }

  @Test func `a control character is escaped`() throws {
    let body = EntitlementResponse(user: UserID("a\u{1}\nb"), entitlement: Self.empty, isFromLedger: true, write: .none)
    let written = Data(buffer: JSONBody.write(body.writeMembers))
    let object = try JSONSerialization.jsonObject(with: written) as? [String: Any]
    #expect(object?["user_id"] as? String == "a\u{1}\nb")
  }
}
