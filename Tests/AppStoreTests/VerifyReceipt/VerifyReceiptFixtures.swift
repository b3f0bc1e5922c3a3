import Foundation

/// Answers of Apple's that were recorded by others, with what a correct validator reads in them.
///
/// They belong to their authors and lie in the folder of `ReceiptFixtures`, whose manifest lists them.
enum VerifyReceiptFixtures {
  struct Case: Decodable, Sendable {
    var id: String
    var kind: String
    var file: String
    var expect: Expectation?
  }

  struct Expectation: Decodable, Sendable {
    var status: StatusOrText?
    var environment: String?
    var bundle_id: String?
    var in_app: Int?
    var latest_receipt_info: Int?
    var latest_receipt_info_is_object: Bool?
    var pending_renewal_info: [[String: String]]?
    var latest: Latest?
    var upgraded_rows: Int?
    var cancelled_rows: Int?
    var steps: [Step]?
    // The judged ones:
    var clock: String?
    var until: String?
    var will_renew: Bool?
    var trial: Bool?
    var ownership: String?
    var next_product: String?
    var reason: String?
  }

  /// A number where an answer is decoded, a word where it is judged.
  enum StatusOrText: Decodable, Sendable {
    case status(Int)
    case text(String)

    init(from decoder: any Decoder) throws {
      let container = try decoder.singleValueContainer()
      if let status = try? container.decode(Int.self) {
        self = .status(status)
      } else {
        self = .text(try container.decode(String.self))
      }
    }

    var number: Int? { if case .status(let status) = self { status } else { nil } }
  }

  struct Latest: Decodable, Sendable {
    var product_id: String?
    var transaction_id: String?
    var original_transaction_id: String?
    var expires: String?
  }

  struct Step: Decodable, Sendable {
    var url: String
    var status: Int
    var environment: String?
    var bundle_id: String?
    var in_app: Int?
    var latest_receipt_info: Int?
    var pending_renewal_info: [[String: String]]?
    var latest: Latest?
  }

  struct Exchange: Decodable {
    struct Request: Decodable { var url: String }
    struct Response: Decodable {
      var http_status: Int
      var body_raw: String
    }
    var request: Request
    var response: Response
  }

  /// The cases of a kind; none where the folder is missing.
  static func cases(_ kind: String) -> [Case] {
    struct Kind: Decodable {
      var kind: String
    }
    struct Manifest: Decodable {
      /// Cases of other kinds have other expectations.
      var cases: [Lossy]
    }
    struct Lossy: Decodable {
      static let mine = ["verifyreceipt_response", "verifyreceipt_exchange", "synthetic_verifyreceipt"]
      var value: Case?
      init(from decoder: any Decoder) throws {
        if Self.mine.contains(try Kind(from: decoder).kind) { value = try Case(from: decoder) }
      }
    }
    guard ReceiptFixtures.areThere else { return [] }
    do {
      let manifest = try JSONDecoder().decode(Manifest.self, from: ReceiptFixtures.bytes("manifest.json"))
      return manifest.cases.compactMap(\.value).filter { $0.kind == kind }
    } catch {
      return [Case(id: "manifest.json is not readable: \(error)", kind: kind, file: "", expect: nil)]
    }
  }
}

extension VerifyReceiptFixtures.Case: CustomStringConvertible {
  var description: String { id }
}
