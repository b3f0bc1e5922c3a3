import Hummingbird
import Validation

extension AdmissionQueue {
  /// Runs a validation when its turn has come, with its errors as problems.
  ///
  /// The body of the request is here: who sends one slowly must not keep a place.
  func validation<Value>(
    of context: ServiceRequestContext, _ work: (Place) async throws(ValidationError) -> Value
  ) async throws -> Value {
    do {
      return try await run(since: context.arrival) { place in
        try await context.validating(await work(place))
      }
    } catch is Refusal {
      throw Problem(ValidationError.overloaded)
    }
  }
}

extension ReceiptValidator {
  /// Validates what a request brought, when its turn has come.
  /// - Throws: a problem.
  func validate(
    _ submission: ReceiptSubmission, in line: AdmissionQueue, _ context: ServiceRequestContext
  ) async throws -> ValidatedEntitlement {
    try await line.validation(of: context) { place throws(ValidationError) in
      try await validate(submission, logger: context.logger, onWait: place.leave)
    }
  }
}
