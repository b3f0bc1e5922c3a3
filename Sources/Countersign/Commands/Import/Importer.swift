import CountersignAPI
import Cryptography
import Entitlements
import FoundationEssentials
import HTTPTransport
import Resilience

/// Posts the customers of a file to the running service, and compares what both services give them.
struct Importer: Sendable {
  var client: ServiceClient
  /// The names of the tiers, ascending; the first is everybody's.
  var tiers: [String]
  /// Only compares with what the service knows.
  var isDryRun: Bool
  /// Whether what the other service gave without a purchase is given here.
  var grantsPromotions = false
  var sleep: @Sendable (Duration) async throws -> Void = { try await Task.sleep(for: $0, clock: .continuous) }

  /// - Throws: a failure that ends the import; what concerns one customer is an outcome.
  func take(_ line: ImportedLine) async throws(ServiceClient.Failure) -> ImportReport.Outcome {
    var refusal: String?
    var answer: EntitlementResponse?
    for proof in isDryRun ? [] : line.proofs {
      do throws(ServiceClient.Failure) {
        answer = try await insistently(sleep: sleep) { () throws(ServiceClient.Failure) in
          try await post(proof, of: line.user)
        }
      } catch {
        switch error {
        case .refused(let detail): refusal = detail
        // The path is there, or the plans could not have been read.
        case .notFound:
          refusal =
            "neither the service nor Apple knows the purchase; without app_store.server_api Apple is not asked by an ID"
        case .away, .unreachable, .refusedCredential, .cancelled: throw error
        }
      }
    }
    let promotions =
      isDryRun || !grantsPromotions ? [] : line.promotions.filter { tiers.dropFirst().contains($0.tier) }
    for promotion in promotions {
      do throws(ServiceClient.Failure) {
        try await insistently(sleep: sleep) { () throws(ServiceClient.Failure) in
          try await grant(promotion, to: line.user)
        }
        answer = nil
      } catch {
        guard case .refused(let detail) = error else { throw error }
        refusal = "the grant of \(promotion.tier): \(detail)"
      }
    }
    // The answers to the customer's other proofs say nothing about the refused one.
    if let refusal { return .refused(refusal) }
    let state: EntitlementResponse
    if let answer {
      state = answer
    } else {
      do throws(ServiceClient.Failure) {
        state = try await insistently(sleep: sleep) { () throws(ServiceClient.Failure) in try await read(line.user) }
      } catch {
        guard case .refused(let detail) = error else { throw error }
        return .refused(detail)
      }
    }
    return outcome(of: line, state)
  }

  private func outcome(of line: ImportedLine, _ state: EntitlementResponse) -> ImportReport.Outcome {
    guard let former = line.tiers else { return .same }
    let lowest = tiers.first ?? ""
    let given = former.subtracting([lowest])
    let unknown = given.filter { !tiers.contains($0) }.sorted()
    let highest = tiers.last(where: given.contains) ?? lowest
    guard !unknown.isEmpty || state.tier != highest else { return .same }
    let names = given.isEmpty ? lowest : given.sorted().joined(separator: " + ")
    var sentence = "\(ServiceClient.printable(names)) there, \(state.tier) here (\(state.reason.rawValue))"
    if !unknown.isEmpty {
      sentence += "; the catalog has no tier \(ServiceClient.printable(unknown.joined(separator: ", ")))"
    }
    if line.purchasesElsewhere > 0 { sentence += "; bought elsewhere than at Apple's: \(line.purchasesElsewhere)" }
    if !line.promotions.isEmpty, isDryRun || !grantsPromotions {
      sentence += "; given there without a purchase, which --grant-promotions gives here"
    }
    return .differs(sentence)
  }

  private func post(_ proof: ImportedLine.Proof, of user: String) async throws(ServiceClient.Failure)
    -> EntitlementResponse
  {
    let request =
      switch proof {
      case .receipt(let text): ValidationRequest(receiptData: text, userID: user)
      case .transactionID(let id): ValidationRequest(originalTransactionID: id, userID: user)
      }
    let response = try await client.post("/v1/validations", request)
    // The purchase is kept, and there is no verdict to compare with.
    guard response.status == 200 else { throw .away("Apple cannot be asked now", retryAfter: .seconds(30)) }
    return try answer(response)
  }

  /// The end of a grant for life: the service takes none later than a century from now. RevenueCat's own for life end
  /// two centuries from now.
  private static let end = Date(timeIntervalSince1970: 4_102_358_400)

  private func grant(_ promotion: ImportedLine.Promotion, to user: String) async throws(ServiceClient.Failure) {
    let request = GrantRequest(
      tier: promotion.tier, endsAt: min(promotion.end ?? .distantFuture, Self.end).rfc3339, kind: "migration",
      note: "countersign import --grant-promotions")
    // The same for the same promotion, so that a repeated import gives nothing twice.
    let key = SHA256Digest(of: "\(request.tier) \(request.endsAt ?? "") \(user)".utf8).hexadecimal
    _ = try await client.post(
      ServiceClient.path(of: user) + "/grants", request, headers: [TransportHeader("Idempotency-Key", key)])
  }

  private func read(_ user: String) async throws(ServiceClient.Failure) -> EntitlementResponse {
    try answer(await client.send(.get, ServiceClient.path(of: user)))
  }

  private func answer(_ response: TransportResponse) throws(ServiceClient.Failure) -> EntitlementResponse {
    try ServiceClient.decode(response.body, or: "the answer cannot be read; is it Countersign that listens there?")
  }
}
