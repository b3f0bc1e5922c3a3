import Foundation
import JSON
import Testing

@testable import AppStore

@Suite("JWS")
struct CompactJWSTests {
  private func kind(_ text: String) -> UndecodableReceipt.Kind? {
    do throws(UndecodableReceipt) { _ = try SignedPayload(CompactJWS(Array(text.utf8))) } catch { return error.kind }
    return nil
  }

  private func jws(header: String = #"{"alg":"ES256"}"#, payload: String) -> String {
    [header, payload, "sig"].map { Base64URL.encode($0.utf8) }.joined(separator: ".")
  }

  @Test func `a text in another form is said to be damaged, or cut`() throws {
    let whole = try SignedDataPKI().sign(SignedSample.transaction())
    let parts = whole.split(separator: ".").map(String.init)
    #expect(kind(whole) == nil)
    for text in [
      whole + ".", whole + "=", whole.replacingOccurrences(of: ".", with: "=."), "*." + parts[1] + "." + parts[2],
      parts[0] + "." + parts[1] + "." + parts[2] + "+", "..", "A.A.A", whole + " ", parts[0] + "..",
      jws(header: "[]", payload: "{}"), jws(header: "", payload: "{}"), jws(payload: "[]"), jws(payload: "text"),
      jws(payload: #"{"transactionId":"1","transactionId":"2"}"#), jws(payload: #"{"transactionId":"1"} x"#),
      jws(payload: String(repeating: "[", count: 5_000)),
    ] {
      #expect(kind(text) == .signedData, "\(text.prefix(40))")
    }
    for (payload, damaged) in [
      (#"{"transactionId":"1"}"#, .signedData), (#"{"renewalDate":"soon"}"#, .signedRenewalInfo),
      (#"{"notificationUUID":"1"}"#, .signedNotification),
    ] as [(String, UndecodableReceipt.Kind)] { #expect(kind(jws(payload: payload)) == damaged, "\(payload)") }
    for text in [parts[0], parts[0] + "." + parts[1], ""] { #expect(kind(text) == .truncated) }
    #expect(kind(String(repeating: "A", count: CompactJWS.limit + 1)) == .tooLarge)
  }

  @Test func `a payload is parsed within limits`() {
    let many = "[" + String(repeating: "{},", count: 3_000) + "{}]"
    #expect(kind(jws(payload: #"{"transactionId":"1","a":\#(many)}"#)) == .signedData)
    let deep = String(repeating: "[", count: 40) + String(repeating: "]", count: 40)
    #expect(kind(jws(payload: #"{"transactionId":"1","a":\#(deep)}"#)) == .signedData)
  }

  @Test func `base64url has one text for each sequence of octets`() {
    for bytes: [UInt8] in [[], [0], [255, 254], [1, 2, 3], [0xFB, 0xFF, 0xBF, 0]] {
      #expect(Base64URL.decode(Base64URL.encode(bytes).utf8) == bytes)
    }
    #expect(Base64URL.encode([0xFB, 0xFF]) == "-_8")
    // Standard alphabet, padding, whitespace, a lone digit, and bits left over at the end.
    for text in ["+/8", "-_8=", "-_ 8", "-_8\n", "A", "-_9", "\u{E9}A"] { #expect(Base64URL.decode(text.utf8) == nil) }
  }
}
