import Access
import CountersignAPI
import Figures
import Hummingbird
import Ledger

/// `/v1/experiments`: what became of the users who saw the variants of experiments.
struct ExperimentsController: Controller {
  var ledger: Ledger
  /// The experiments of the catalog.
  var experiments: [Experiment]

  func addRoutes(to routes: Routes) { routes.serve("/v1/experiments", [.get: list]) }

  func list(_ request: Request, _ context: ServiceRequestContext) async throws -> Response {
    _ = try context.requireCaller(.service, .support)
    let (from, to) = (try request.day("from"), try request.day("to"))
    let (first, last) = (from ?? .min, to ?? Int(Int32.max))
    guard first <= last else { throw Problem(.malformedRequest, "'from' is later than 'to'.") }
    let days = from == nil && to == nil ? nil : first..<last + 1
    let figures = try await context.reading(await ledger.readLong(ReadExperimentFigures(exposedIn: days)))
    let known = experiments.map { ExperimentsResponse.Experiment($0, figures.counts[$0.name] ?? [:]) }
    // Experiments that the catalog lacks: nobody is shown a variant of them any more.
    let names = Set(experiments.map(\.name))
    let former = figures.counts.filter { !names.contains($0.key) && !$0.value.isEmpty }.sorted { $0.key < $1.key }
      .map { name, counts in
        ExperimentsResponse.Experiment(
          name: name, isRunning: false, hasStrangeShares: nil, ahead: Self.ahead(counts),
          variants: .init(counts, after: []))
      }
    return JSONBody.response(ExperimentsResponse(pending: figures.pending, experiments: known + former))
  }

  /// - Parameter counts: by variant and currency.
  fileprivate static func ahead(_ counts: [String: [String: VariantCounts]]) -> String? {
    VariantCounts.ahead(counts.mapValues { $0[""] ?? VariantCounts() })
  }
}

extension ExperimentsResponse.Experiment {
  /// - Parameter counts: by variant and currency.
  fileprivate init(_ experiment: Experiment, _ counts: [String: [String: VariantCounts]]) {
    let hasStrangeShares = experiment.hasStrangeShares(counts.mapValues { $0[""]?.exposed ?? 0 })
    // A variant without a weight is shown to nobody new; one that nobody saw yet is too young for a comparison.
    let shown = Dictionary(
      uniqueKeysWithValues: experiment.variants.filter { $0.weight > 0 }.map { ($0.name, counts[$0.name] ?? [:]) })
    self.init(
      name: experiment.name, isRunning: true, hasStrangeShares: hasStrangeShares,
      ahead: hasStrangeShares == true ? nil : ExperimentsController.ahead(shown),
      variants: .init(counts, after: experiment.variants))
  }
}

extension [ExperimentsResponse.Variant] {
  /// The variants of the catalog in their order, then others that users saw.
  fileprivate init(_ counts: [String: [String: VariantCounts]], after variants: [Experiment.Variant]) {
    let names = Set(variants.map(\.name))
    let others = counts.keys.filter { !names.contains($0) }.sorted()
    self =
      variants.map { .init($0.name, weight: $0.weight, counts[$0.name] ?? [:]) }
      + others.map { .init($0, weight: nil, counts[$0] ?? [:]) }
  }
}

extension ExperimentsResponse.Variant {
  fileprivate init(_ name: String, weight: Double?, _ counts: [String: VariantCounts]) {
    let users = counts[""] ?? VariantCounts()
    let conversion = users.conversion
    self.init(
      name: name, weight: weight, exposed: users.exposed, paidBefore: users.paidBefore, trials: users.trials,
      paid: users.paid, conversion: conversion.map { FiguresResponse.rounded($0.rate) },
      conversionLow: conversion.map { FiguresResponse.rounded($0.interval.lowerBound) },
      conversionHigh: conversion.map { FiguresResponse.rounded($0.interval.upperBound) },
      money: counts.filter { !$0.key.isEmpty }.sorted { $0.key < $1.key }.map { currency, counts in
        ExperimentsResponse.Money(
          currency: currency, revenue: Price(milliunits: counts.revenue).text,
          refunds: Price(milliunits: counts.refunds).text)
      })
  }
}
