import JSON

/// `errorCode` of an error of the App Store Server API. Numbers that Apple adds are kept.
///
/// https://developer.apple.com/documentation/appstoreserverapi/error-codes
struct ServerAPIErrorCode: RawRepresentable, Hashable, Sendable {
  enum Meaning: Hashable, Sendable {
    case notFound
    /// Apple asks to be asked again.
    case temporary
    /// Our request was wrong, or Apple has something new to say.
    case unknown
  }

  let rawValue: Int

  static let invalidTransactionID = Self(rawValue: 4_000_006)
  static let invalidOriginalTransactionID = Self(rawValue: 4_000_008)
  static let accountNotFound = Self(rawValue: 4_040_001)
  static let accountNotFoundRetryable = Self(rawValue: 4_040_002)
  static let appNotFound = Self(rawValue: 4_040_003)
  static let appNotFoundRetryable = Self(rawValue: 4_040_004)
  static let originalTransactionIDNotFound = Self(rawValue: 4_040_005)
  static let originalTransactionIDNotFoundRetryable = Self(rawValue: 4_040_006)
  /// Also the answer of the one store to an ID of the other.
  static let transactionIDNotFound = Self(rawValue: 4_040_010)

  static let internalError = Self(rawValue: 5_000_000)
  static let internalErrorRetryable = Self(rawValue: 5_000_001)

  /// The first three digits are the HTTP status. Where they are not, something between Apple and us has spoken too.
  var httpStatus: Int { rawValue / 10_000 }

  /// Whether Apple may answer so about one purchase and not about the next.
  var mayConcernThisReceiptOnly: Bool {
    switch self {
    case .internalError, .internalErrorRetryable: true
    default: meaning == .temporary
    }
  }

  /// The meaning of a code in a 4xx answer. By its status, a 5xx is trouble, and 4290000 is the rate limit.
  var meaning: Meaning {
    switch self {
    // Digits that are no ID in Apple's eyes are not the ID of any purchase either.
    case .invalidTransactionID, .invalidOriginalTransactionID: .notFound
    case .accountNotFound, .appNotFound, .originalTransactionIDNotFound, .transactionIDNotFound: .notFound
    case .accountNotFoundRetryable, .appNotFoundRetryable, .originalTransactionIDNotFoundRetryable: .temporary
    default: .unknown
    }
  }
}

extension ServerAPIErrorCode {
  /// - Parameter body: `{"errorCode":4040010,"errorMessage":"Transaction id not found."}`. The message is for people.
  init(_ body: JSONValue) throws(JSONError) {
    guard let number = try body.integer("errorCode") else { throw body.missing("errorCode") }
    guard let code = Int(exactly: number) else { throw body.unreadable("errorCode") }
    self.init(rawValue: code)
  }
}
