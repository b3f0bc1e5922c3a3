import Entitlements
import Foundation
import NIOCore

/// An answer of verifyReceipt in Apple's shape, in which only the original transaction ID differs from one to the next.
struct AnswerTemplate: Sendable {
  /// The subscription's ID, a digit for each of these.
  static let placeholder = "900000000000000"
  static let product = "com.example.app.pro.monthly"
  static let bundleID = "com.example.app"

  private let bytes: ByteBuffer
  /// Where the ID stands.
  private let places: [Int]

  /// - Parameters:
  ///   - periods: rows in each of the two lists, 24 hours apart, the newest running.
  ///   - receiptBytes: of `latest_receipt`.
  init(periods: Int, receiptBytes: Int, now: Date) {
    var text = "{\"environment\":\"Production\",\"receipt\":{\"receipt_type\":\"Production\",\"adam_id\":1234567890,"
    text += "\"app_item_id\":1234567890,\"bundle_id\":\"\(Self.bundleID)\",\"application_version\":\"412\","
    text += "\"download_id\":502345678901234567,\"version_external_identifier\":860000001,"
    text += Self.triplet("receipt_creation_date", now) + "," + Self.triplet("request_date", now) + ","
    text += Self.triplet("original_purchase_date", now - 864_000) + ",\"original_application_version\":\"400\","
    let rows = (0..<periods).map { Self.row($0, of: periods, now: now) }
    text += "\"in_app\":[" + rows.joined(separator: ",") + "]},"
    let newestFirst = rows.reversed().map { $0.dropLast() + ",\"subscription_group_identifier\":\"20512345\"}" }
    text += "\"latest_receipt_info\":[" + newestFirst.joined(separator: ",") + "],"
    let filler = String(
      repeating: "MIIT5wYJKoZIhvcNAQcCoIIT2DCCE9QCAQExDzANBglghkgBZQMEAgEFADCC", count: receiptBytes / 60)
    text += "\"latest_receipt\":\"\(filler)\",\"pending_renewal_info\":[{\"auto_renew_product_id\":\"\(Self.product)\","
    text += "\"product_id\":\"\(Self.product)\",\"original_transaction_id\":\"\(Self.placeholder)\","
    text += "\"auto_renew_status\":\"1\"}],\"status\":0}"

    let whole = Array(text.utf8)
    let mark = Array(Self.placeholder.utf8)
    var places: [Int] = []
    var index = 0
    while index + mark.count <= whole.count {
      if whole[index] == mark[0], whole[index..<index + mark.count].elementsEqual(mark) {
        places.append(index)
        index += mark.count
      } else {
        index += 1
      }
    }
    bytes = ByteBuffer(bytes: whole)
    self.places = places
  }

  var count: Int { bytes.readableBytes }

  /// The answer to a request: the same receipt is always the same subscription.
  func answer(to request: ByteBufferView) -> ByteBuffer {
    var answer = bytes
    let receipt = request.dropFirst(#"{"receipt-data":""#.utf8.count).prefix { $0 != UInt8(ascii: "\"") }
    let id = Self.originalTransactionID(of: receipt)
    for place in places { answer.setString(id, at: place) }
    return answer
  }

  /// 15 digits from the text of a receipt (FNV-1a over its end, where the signature is).
  static func originalTransactionID(of receipt: some BidirectionalCollection<UInt8>) -> String {
    var hash: UInt64 = 0xcbf2_9ce4_8422_2325
    for byte in receipt.suffix(256) { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
    return String(100_000_000_000_000 + hash % 800_000_000_000_000)
  }

  private static func row(_ index: Int, of count: Int, now: Date) -> String {
    let bought = now - 43_200 - Double(count - 1 - index) * 86_400
    var text =
      "{\"quantity\":\"1\",\"product_id\":\"\(product)\",\"transaction_id\":\"7\(placeholder.dropFirst(4))\(1000 + index)\","
    text += "\"original_transaction_id\":\"\(placeholder)\"," + triplet("purchase_date", bought) + ","
    text += triplet("original_purchase_date", now - 864_000) + "," + triplet("expires_date", bought + 86_400)
    text += ",\"web_order_line_item_id\":\"450000\(100_000_000 + index)\",\"is_trial_period\":\"false\","
    text += "\"is_in_intro_offer_period\":\"false\",\"in_app_ownership_type\":\"PURCHASED\"}"
    return text
  }

  private static func triplet(_ name: String, _ date: Date) -> String {
    let moment = Date(timeIntervalSince1970: date.timeIntervalSince1970.rounded(.down))
    let text = moment.rfc3339.dropLast().replacing("T", with: " ")
    return "\"\(name)\":\"\(text) Etc/GMT\",\"\(name)_ms\":\"\(moment.millisecondsSince1970)\","
      + "\"\(name)_pst\":\"\(text) America/Los_Angeles\""
  }
}
