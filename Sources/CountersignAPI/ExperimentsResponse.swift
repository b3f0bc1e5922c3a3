/// The answer of `GET /v1/experiments`: the results of each experiment, by variant.
public struct ExperimentsResponse: Codable, Hashable, Sendable {
  /// The payments of users who had not paid before, in one currency, as decimal numbers in a text: `4.99`.
  public struct Money: Codable, Hashable, Sendable {
    /// As ISO 4217 names it: `USD`.
    public var currency: String
    /// The payments, and the refunds of them since.
    public var revenue: String
    public var refunds: String

    public init(currency: String, revenue: String, refunds: String) {
      self.currency = currency
      self.revenue = revenue
      self.refunds = refunds
    }
  }

  /// A variant of an experiment.
  public struct Variant: Codable, Hashable, Sendable {
    public var name: String
    /// Its weight in the catalog; `null` for a variant that the catalog lacks.
    @Nullable public var weight: Double?
    /// Users who saw the variant, and those of them who had paid before.
    public var exposed: Int64
    public var paidBefore: Int64
    /// Users who had not paid before, and since began a trial, or paid.
    public var trials: Int64
    public var paid: Int64
    /// `paid` per user who had not paid before, with the interval in which it lies with a probability of 95 %; `null` without
    /// such a user. Four digits.
    @Nullable public var conversion: Double?
    @Nullable public var conversionLow: Double?
    @Nullable public var conversionHigh: Double?
    /// By currency.
    public var money: [Money]

    private enum CodingKeys: String, CodingKey {
      case name, weight, exposed
      case paidBefore = "paid_before"
      case trials, paid, conversion
      case conversionLow = "conversion_low"
      case conversionHigh = "conversion_high"
      case money
    }

    public init(
      name: String, weight: Double?, exposed: Int64, paidBefore: Int64, trials: Int64, paid: Int64,
      conversion: Double?, conversionLow: Double?, conversionHigh: Double?, money: [Money]
    ) {
      self.name = name
      _weight = Nullable(wrappedValue: weight)
      self.exposed = exposed
      self.paidBefore = paidBefore
      self.trials = trials
      self.paid = paid
      _conversion = Nullable(wrappedValue: conversion)
      _conversionLow = Nullable(wrappedValue: conversionLow)
      _conversionHigh = Nullable(wrappedValue: conversionHigh)
      self.money = money
    }
  }

  /// An experiment of the catalog, or a former one with exposures.
  public struct Experiment: Codable, Hashable, Sendable {
    public var name: String
    /// Whether the catalog has it.
    public var isRunning: Bool
    /// Whether the shares of users differ from the weights (sample ratio mismatch); `null` for too few users.
    @Nullable public var hasStrangeShares: Bool?
    /// The variant with a surely higher conversion than every other one; `null` while it is too early to say.
    @Nullable public var ahead: String?
    public var variants: [Variant]

    private enum CodingKeys: String, CodingKey {
      case name
      case isRunning = "running"
      case hasStrangeShares = "sample_ratio_mismatch"
      case ahead, variants
    }

    public init(name: String, isRunning: Bool, hasStrangeShares: Bool?, ahead: String? = nil, variants: [Variant]) {
      self.name = name
      self.isRunning = isRunning
      _hasStrangeShares = Nullable(wrappedValue: hasStrangeShares)
      _ahead = Nullable(wrappedValue: ahead)
      self.variants = variants
    }
  }

  /// Purchases and users that changed and are not counted yet; 1,000 means that or more.
  public var pending: Int
  public var experiments: [Experiment]

  public init(pending: Int, experiments: [Experiment]) {
    self.pending = pending
    self.experiments = experiments
  }
}
