import CountersignAPI
import Entitlements
import Hummingbird
import Validation

/// `POST /v1/validations`: a thin adapter over `ReceiptValidator`.
struct ValidationsController: Controller {
  var validator: ReceiptValidator
  var body: JSONRequestBody
  var budgets: BodyBudgets
  var line: AdmissionQueue

  /// The body from a user. A user ID in it is ignored, because the token names the user.
  private struct UserRequest: Decodable {
    var request: ValidationRequest

    init(from decoder: any Decoder) throws {
      let container = try decoder.container(keyedBy: ValidationRequest.CodingKeys.self)
      request = ValidationRequest(
        receiptData: try container.decodeIfPresent(String.self, forKey: .receiptData),
        originalTransactionID: try container.decodeIfPresent(String.self, forKey: .originalTransactionID),
        transactionID: try container.decodeIfPresent(String.self, forKey: .transactionID))
    }
  }

  func addRoutes(to routes: Routes) { routes.serve("/v1/validations", [.post: validate]) }

  func validate(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    let caller = try context.requireUserOr(.service, .support)
    let loan = budgets.validation(by: context.caller, at: context.clientAddress)
    return switch caller {
    case .user(let user): try await validateForUser(user, request, loan, context)
    case .server: try await validateForServer(request, loan, context)
    }
  }

  // Not inlined into each other: a request holds their memory while Apple is awaited, 3.0 KB, and 4.6 in one function.

  @inline(never)
  private func validateForUser(
    _ user: UserID, _ request: Request, _ loan: ByteBudget.Loan, _ context: ServiceRequestContext
  ) async throws -> Response {
    let body = try await body.decode(UserRequest.self, from: request, loan)
    defer { withExtendedLifetime(body.loan) {} }
    do {
      return try await validate(body.value.request, of: user, isVouchedFor: false, context)
    } catch let problem as Problem {
      throw body.value.request.originalTransactionID == nil ? problem : Self.withoutHint(problem)
    }
  }

  @inline(never)
  private func validateForServer(
    _ request: Request, _ loan: ByteBudget.Loan, _ context: ServiceRequestContext
  ) async throws -> Response {
    let body = try await body.decode(ValidationRequest.self, from: request, loan)
    defer { withExtendedLifetime(body.loan) {} }
    let user = try UserID(required: body.value.userID, as: "the purchase's user")
    return try await validate(body.value, of: user, isVouchedFor: true, context)
  }

  /// The problem of a user who sent an ID alone: anybody can write one down, and must not learn from it what others
  /// have bought.
  static func withoutHint(_ problem: Problem) -> Problem {
    guard [.ownedByAnotherUser, .unknownTransaction].contains(problem.code) else { return problem }
    return Problem(
      .unknownTransaction,
      "No purchase of yours with this original transaction ID is known; post the receipt or the signed transaction instead."
    )
  }

  @inline(never)
  private func validate(
    _ posted: ValidationRequest, of user: UserID, isVouchedFor: Bool, _ context: ServiceRequestContext
  ) async throws -> Response {
    var submission = ReceiptSubmission(
      user: user, proof: try Self.proof(posted), requestID: context.requestID, isVouchedFor: isVouchedFor)
    if let id = posted.transactionID {
      submission.transactionID = TransactionID(try Self.checked(id, "transaction_id"))
    }
    let answer = try await validator.validate(submission, in: line, context)
    return JSONBody.response(EntitlementResponse(answer), status: answer.isPending ? .accepted : .ok)
  }

  private static func proof(_ posted: ValidationRequest) throws(Problem) -> ReceiptSubmission.Proof {
    switch (posted.receiptData, posted.originalTransactionID) {
    case (.some, .some):
      throw Problem(
        .malformedRequest, "Send either 'receipt_data' or 'original_transaction_id', not both: they may disagree.")
    case (nil, nil):
      throw Problem(
        .malformedRequest,
        "Send 'receipt_data' (the receipt in base64, or a signed transaction) or 'original_transaction_id'.")
    case (.some(let receipt), nil): return .receipt(receipt)
    case (nil, .some(let id)):
      return .originalTransactionID(OriginalTransactionID(try checked(id, "original_transaction_id")))
    }
  }

  private static func checked(_ id: String, _ member: String) throws(Problem) -> String {
    guard id.isStoreID else {
      throw Problem(.malformedRequest, "'\(member)' has to be the ID as Apple writes it, as a string.")
    }
    return id
  }
}
