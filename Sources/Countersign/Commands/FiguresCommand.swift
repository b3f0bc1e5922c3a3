import ArgumentParser
import CountersignAPI
import FoundationEssentials
import Glibc
import HTTPTransport

/// `countersign figures`
struct FiguresCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "figures",
    abstract: "Show how many pay, and how much, as the running service counts it.",
    discussion: """
      Without options it shows the last thirty days, one line each. Days are in UTC. The \
      page on figures has the formulas.

      The command needs an API key of the role 'service' or 'support', in \
      COUNTERSIGN_API_KEY or in the file that --key-file names.

      EXIT CODES
          0  done
         64  wrong usage, or a span that the service does not take
         69  the service cannot be reached
         77  the service refuses the key

      EXAMPLES
        countersign figures --key-file support.key
        countersign figures --from 2025-01-01 --interval month --key-file support.key
        countersign figures --product com.example.app.pro.monthly --json | jq .churn
      """)

  @Option(name: .long, help: "The first day, as 2026-01-31; thirty days are shown if it is left out.")
  var from: String?

  @Option(name: .long, help: "The last day; today if it is left out.")
  var to: String?

  @Option(name: .long, help: "By 'day' or by 'month'.")
  var interval: String?

  @Option(name: .long, help: "The ID of the one product that counts.")
  var product: String?

  @OptionGroup var service: ServiceOptions

  @Flag(name: .long, help: "Print the service's answer, one JSON object.")
  var json = false

  /// The most bytes of an answer: ninety-two days with money in every currency there is.
  private static let limit = 16 * 1024 * 1024

  func run() async throws {
    let query = [("from", from), ("to", to), ("interval", interval), ("product_id", product)].compactMap {
      name, value in value.map { "\(name)=\($0.percentEncoded)" }
    }
    let path = (["/v1/figures"] + (query.isEmpty ? [] : [query.joined(separator: "&")])).joined(separator: "?")
    let (figures, body): (FiguresResponse, [UInt8]) = try await service.ask(
      .get, path, answerLimit: Self.limit,
      or: "the answer is not one of figures; is it Countersign, of this version?")
    CommandOutput.show(figures.text, or: json ? body : nil)
  }
}

extension FiguresResponse {
  /// The figures as tables for a terminal.
  var text: String {
    var parts = [counts]
    if periods.contains(where: { !$0.money.isEmpty }) { parts.append(money) }
    if let rates {
      let left = rates.missing.map(ServiceClient.printable).joined(separator: ", ")
      parts.append(
        "'all in \(ServiceClient.printable(rates.currency))' is by the rates of \(rates.from) to \(rates.to)"
          + (left.isEmpty ? "." : ", without \(left)."))
    }
    if !products.isEmpty { parts.append(sales) }
    parts.append(ratios)
    if !cohorts.isEmpty { parts.append(retention) }
    if !subscribers.isEmpty { parts.append(users) }
    if !nearLimits.isEmpty { parts.append(limits) }
    if pending > 0 {
      parts.append("\(pending == 1_000 ? "1000 or more" : "\(pending)") purchases changed and are not counted yet.")
    }
    return parts.joined(separator: "\n\n")
  }

  private var counts: String {
    let head = [
      "from", "to", "active", "trials", "grace", "new", "existing", "ended", "back", "payments", "refunded",
      "trial starts",
      "paid for", "users", "paid", "paywall", "paid",
    ]
    let rows = periods.map { period in
      [period.from, period.to]
        + [
          period.active, period.trials, period.grace, period.new, period.existing, period.ended, period.resubscribed,
          period.payments,
          period.refundedPayments, period.trialStarts, period.trialConversions, period.users, period.conversions,
          period.viewers, period.purchasers,
        ].map { "\($0)" }
    }
    return TextTable.text([head] + rows, numbers: 2..<head.count)
  }

  private var money: String {
    let head = ["from", "to", "currency", "MRR", "ARR", "new MRR", "existing", "revenue", "refunds"]
    let rows = periods.flatMap { period in
      (period.money.map { (money: $0, name: $0.currency) }
        + [period.converted].compactMap(\.self).map { (money: $0, name: "all in \($0.currency)") }).map { money, name in
          [
            period.from, period.to, ServiceClient.printable(name), money.mrr, money.arr, money.newMRR,
            money.existingMRR, money.revenue, money.refunds,
          ]
        }
    }
    return TextTable.text([head] + rows, numbers: 3..<head.count)
  }

  private var sales: String {
    let head = ["product", "period", "active", "currency", "MRR", "revenue", "refunds"]
    let rows = products.flatMap { product in
      let start = [ServiceClient.printable(product.productID), product.period ?? "-", "\(product.active)"]
      return product.money.isEmpty
        ? [start]
        : product.money.map { money in
          start + [ServiceClient.printable(money.currency), money.mrr, money.revenue, money.refunds]
        }
    }
    return TextTable.text([head] + rows, numbers: 2..<head.count)
  }

  private var users: String {
    let rows = subscribers.map {
      ["\($0.users)", ServiceClient.printable($0.tier), ServiceClient.printable($0.status)]
    }
    return TextTable.text([["users now", "tier", "status"]] + rows, numbers: 0..<1)
  }

  private var retention: String {
    let length = cohorts.map(\.active.count).max() ?? 0
    let head = ["cohort", "new"] + (0..<length).map { "+\($0)" }
    let rows = cohorts.map { cohort in
      [cohort.month, "\(cohort.subscriptions)"]
        + cohort.active.map { active in
          cohort.subscriptions > 0
            ? (Double(active) / Double(cohort.subscriptions)).percent(digits: 0) : "-"
        }
    }
    return TextTable.text([head] + rows, numbers: 1..<head.count)
  }

  private var limits: String {
    let rows = nearLimits.map {
      ["\($0.users)", ServiceClient.printable($0.tier), ServiceClient.printable($0.feature)]
    }
    return TextTable.text([["near a limit", "tier", "feature"]] + rows, numbers: 0..<1)
  }

  private var ratios: String {
    TextTable.text(
      [
        ["churn", Self.percent(churn), "of \(activeBefore) that were active before"],
        ["trial conversion", Self.percent(trialConversion), "of the trials that began"],
        ["refund rate", Self.percent(refundRate), "of the payments"],
        ["conversion", Self.percent(conversion), "of the users who came"],
        ["paywall conversion", Self.percent(paywallConversion), "of the users who saw a paywall"],
        ["webhook success", Self.percent(webhookSuccess), "of the attempts"],
      ], numbers: 1..<2)
  }

  private static func percent(_ ratio: Double?) -> String { ratio.map { $0.percent(digits: 2) } ?? "-" }
}

extension Double {
  /// A share in percent, rounded as printf(3) does.
  fileprivate func percent(digits: Int32) -> String {
    // The largest number has 309 digits.
    var text = [CChar](repeating: 0, count: 320)
    let length = withVaList([digits, self * 100]) { vsnprintf(&text, text.count, "%.*f %%", $0) }
    return String(decoding: text.prefix(max(0, Int(length))).map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }
}
