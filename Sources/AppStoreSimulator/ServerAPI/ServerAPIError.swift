/// Apple's error codes, with Apple's messages.
struct ServerAPIError: Error {
  private var code: Int64
  private var message: String

  private init(_ code: Int64, _ message: String) { (self.code, self.message) = (code, message) }

  static let invalidTransactionID = Self(4_000_006, "Invalid transaction id.")
  static let invalidRevision = Self(4_000_005, "Invalid request revision.")
  static let invalidStatus = Self(4_000_031, "Invalid request. The status parameter is invalid.")
  static let invalidProductType = Self(4_000_022, "Invalid request. The product type parameter is invalid.")
  static let invalidRevoked = Self(4_000_030, "Invalid request. The revoked parameter is invalid.")
  static let invalidSort = Self(4_000_021, "Invalid request. The sort parameter is invalid.")
  static let accountNotFound = Self(4_040_001, "Account not found.")
  static let accountNotFoundRetryable = Self(4_040_002, "Account not found. Please try again.")
  static let transactionNotFound = Self(4_040_010, "Transaction id not found.")
  static let rateLimited = Self(4_290_000, "Rate limit exceeded.")
  static let internalError = Self(5_000_000, "An unknown error occurred.")
  static let internalErrorRetryable = Self(5_000_001, "An unknown error occurred. Please try again.")
  static let badRequest = Self(4_000_000, "Bad request.")
  static let startTooFarInPast = Self(
    4_000_012, "Invalid request. The start date is earlier than the allowed start date.")
  static let startAfterEnd = Self(
    4_000_013, "Invalid request. The end date precedes the start date or the dates are the same.")
  static let invalidPaginationToken = Self(4_000_014, "Invalid request. The pagination token is invalid.")
  static let invalidStartDate = Self(4_000_015, "Invalid request. The start date is invalid.")
  static let invalidEndDate = Self(4_000_016, "Invalid request. The end date is invalid.")
  static let multipleFilters = Self(
    4_000_019, "Invalid request. Supply either a transaction id or a notification type.")
  static let invalidTestToken = Self(4_000_020, "Invalid request. The test notification token is invalid.")
  static let invalidCustomerConsented = Self(
    4_000_035, "Invalid request. The customer consented field is required and must indicate the customer consented.")
  static let invalidDeliveryStatus = Self(4_000_036, "Invalid request. The delivery status field is invalid.")
  static let invalidSampleContentProvided = Self(
    4_000_041, "Invalid request. The sample content provided field is invalid.")
  static let invalidRefundPreference = Self(4_000_044, "Invalid request. The refund preference field is invalid.")
  static let familyTransaction = Self(
    4_000_185, "Invalid request. Family Sharing transactions aren't supported by this endpoint.")
  static let invalidAccountToken = Self(4_000_183, "Invalid request. The app account token field must be a valid UUID.")
  static let notOriginalTransactionID = Self(
    4_000_187, "Invalid request. The transaction ID provided is not an original transaction ID.")
  static let consumptionPercentageAutoRenewable = Self(
    4_000_209,
    "Invalid request. The consumption percentage field is not supported for auto-renewable subscription transactions.")
  static let invalidOriginalTransactionID = Self(4_000_008, "Invalid original transaction id.")
  static let originalTransactionNotFound = Self(4_040_005, "Original transaction id not found.")
  static let invalidExtendByDays = Self(4_000_009, "Invalid extend by days value.")
  static let invalidExtendReason = Self(4_000_010, "Invalid extend reason code.")
  static let invalidRequestIdentifier = Self(4_000_011, "Invalid request identifier.")
  static let invalidProductID = Self(4_000_023, "Invalid request. The product id parameter is invalid.")
  static let emptyStorefronts = Self(4_000_027, "Invalid request. The storefront country code list is empty.")
  static let invalidStorefront = Self(4_000_028, "Invalid request. A storefront country code is invalid.")
  static let extensionIneligible = Self(4_030_004, "Forbidden - subscription state ineligible for extension.")
  static let mostExtensions = Self(4_030_005, "Forbidden - subscription has reached maximum extension count.")
  static let familySharedExtension = Self(
    4_030_007, "Subscriptions that users obtain through Family Sharing can't get a renewal date extension directly.")
  static let extensionRequestNotFound = Self(
    4_040_009, "The server didn't find a subscription-renewal-date extension request for this identifier.")
  static let noNotificationURL = Self(
    4_040_007, "No App Store server notification URL found for provided app. Check that a URL is configured.")
  static let testNotFound = Self(
    4_040_008, "Either the test notification token is expired or the status is not available yet.")
  // Apple's pages name these two errors without their numbers, which are made up here.
  static let consumptionPercentageOutOfRange = Self(
    4_000_207, "Invalid request. The consumption percentage is out of range.")
  static let undeliveredConsumptionPercentage = Self(
    4_000_208, "Invalid request. The consumption percentage must be zero for this delivery status.")

  /// The HTTP status is the code's first three digits.
  var answer: Answer {
    .ofServerAPI(
      .object([("errorCode", .integer(code)), ("errorMessage", .string(message))]), httpStatus: Int(code / 10_000))
  }
}
