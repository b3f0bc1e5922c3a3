/// The answer of `GET /v1/figures`: subscriptions and revenue, by day or by month.
public struct FiguresResponse: Codable, Hashable, Sendable {
  /// The amounts in one currency, as decimal numbers in a text: `4.99`.
  public struct Money: Codable, Hashable, Sendable {
    /// As ISO 4217 names it: `USD`.
    public var currency: String
    /// Monthly and annual recurring revenue on the last day.
    public var mrr: String
    public var arr: String
    /// The monthly recurring revenue of subscriptions that were paid for the first time.
    public var newMRR: String
    /// The monthly recurring revenue of those whose first payment is not known.
    public var existingMRR: String
    /// The prices of the payments, and the part of them that was refunded since.
    public var revenue: String
    public var refunds: String

    private enum CodingKeys: String, CodingKey {
      case currency, mrr, arr
      case newMRR = "new_mrr"
      case existingMRR = "existing_mrr"
      case revenue, refunds
    }

    public init(
      currency: String, mrr: String, arr: String, newMRR: String, existingMRR: String, revenue: String, refunds: String
    ) {
      self.currency = currency
      self.mrr = mrr
      self.arr = arr
      self.newMRR = newMRR
      self.existingMRR = existingMRR
      self.revenue = revenue
      self.refunds = refunds
    }
  }

  /// A day, a month, or the part of a month that lies in the span.
  public struct Period: Codable, Hashable, Sendable {
    /// The first and the last day, in UTC: `2026-01-31`.
    public var from: String
    public var to: String
    /// Paid subscriptions, trials that run, and subscriptions in a grace period, on the last day.
    public var active: Int64
    public var trials: Int64
    public var grace: Int64
    /// First payments, subscriptions first seen at a later one, those that ended, and those that came back.
    public var new: Int64
    public var existing: Int64
    public var ended: Int64
    public var resubscribed: Int64
    /// Payments, and those of them that were refunded since.
    public var payments: Int64
    public var refundedPayments: Int64
    /// Trials that began, those of them that were paid for since, and those that still may be.
    public var trialStarts: Int64
    public var trialConversions: Int64
    public var trialsPending: Int64
    /// New users, and those of them who have paid since.
    public var users: Int64
    public var conversions: Int64
    /// Users who saw a paywall for the first time, and those of them who have paid since.
    public var viewers: Int64
    public var purchasers: Int64
    /// Those that ended less those that came back, per one that was active before the period; `null` if none was.
    @Nullable public var churn: Double?
    /// By currency.
    public var money: [Money]
    /// All currencies together; `null` without exchange rates.
    @Nullable public var converted: Money?

    private enum CodingKeys: String, CodingKey {
      case from, to, active, trials, grace, new, existing, ended, resubscribed, payments
      case refundedPayments = "refunded_payments"
      case trialStarts = "trial_starts"
      case trialConversions = "trial_conversions"
      case trialsPending = "trials_pending"
      case users, conversions, viewers, purchasers, churn, money, converted
    }

    public init(
      from: String, to: String, active: Int64, trials: Int64, grace: Int64, new: Int64, existing: Int64,
      ended: Int64, resubscribed: Int64, payments: Int64, refundedPayments: Int64, trialStarts: Int64,
      trialConversions: Int64,
      trialsPending: Int64, users: Int64, conversions: Int64, viewers: Int64, purchasers: Int64, churn: Double? = nil,
      money: [Money], converted: Money? = nil
    ) {
      self.from = from
      self.to = to
      self.active = active
      self.trials = trials
      self.grace = grace
      self.new = new
      self.existing = existing
      self.ended = ended
      self.resubscribed = resubscribed
      self.payments = payments
      self.refundedPayments = refundedPayments
      self.trialStarts = trialStarts
      self.trialConversions = trialConversions
      self.trialsPending = trialsPending
      self.users = users
      self.conversions = conversions
      self.viewers = viewers
      self.purchasers = purchasers
      _churn = Nullable(wrappedValue: churn)
      self.money = money
      _converted = Nullable(wrappedValue: converted)
    }
  }

  /// The paid subscriptions at the end of the day before the span.
  public var activeBefore: Int64
  /// Parts of one over the span, with four digits; `null` where there is nothing to divide by.
  @Nullable public var churn: Double?
  @Nullable public var trialConversion: Double?
  @Nullable public var refundRate: Double?
  @Nullable public var conversion: Double?
  @Nullable public var paywallConversion: Double?
  @Nullable public var webhookSuccess: Double?
  /// Purchases that changed and are not counted yet; 1,000 means that or more.
  public var pending: Int
  /// As of now, and not of the span.
  public var subscribers: [Subscribers]
  public var nearLimits: [NearLimit]
  /// Over the span, and on its last day.
  public var cycles: [Cycle]
  public var products: [Product]
  public var webhooks: [Webhook]
  /// The whole months of a span by month.
  public var cohorts: [Cohort]
  public var periods: [Period]
  /// The exchange rates by which amounts are converted; `null` without any.
  @Nullable public var rates: Rates?

  private enum CodingKeys: String, CodingKey {
    case activeBefore = "active_before"
    case churn
    case trialConversion = "trial_conversion"
    case refundRate = "refund_rate"
    case conversion
    case paywallConversion = "paywall_conversion"
    case webhookSuccess = "webhook_success"
    case pending, subscribers
    case nearLimits = "near_limits"
    case cycles, products, webhooks, cohorts, periods, rates
  }

  public init(
    activeBefore: Int64, churn: Double?, trialConversion: Double?, refundRate: Double?, conversion: Double?,
    paywallConversion: Double?, webhookSuccess: Double?, pending: Int, subscribers: [Subscribers],
    nearLimits: [NearLimit], cycles: [Cycle], products: [Product], webhooks: [Webhook], cohorts: [Cohort],
    periods: [Period], rates: Rates? = nil
  ) {
    self.activeBefore = activeBefore
    _churn = Nullable(wrappedValue: churn)
    _trialConversion = Nullable(wrappedValue: trialConversion)
    _refundRate = Nullable(wrappedValue: refundRate)
    _conversion = Nullable(wrappedValue: conversion)
    _paywallConversion = Nullable(wrappedValue: paywallConversion)
    _webhookSuccess = Nullable(wrappedValue: webhookSuccess)
    self.pending = pending
    self.subscribers = subscribers
    self.nearLimits = nearLimits
    self.cycles = cycles
    self.products = products
    self.webhooks = webhooks
    self.cohorts = cohorts
    self.periods = periods
    _rates = Nullable(wrappedValue: rates)
  }
}
