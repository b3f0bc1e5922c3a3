/// The answer to `DELETE /v1/profiles/{user_id}`: the numbers of erased and kept rows. A second request erases nothing.
public struct ErasureResponse: Codable, Hashable, Sendable {
  /// The deleted rows.
  public struct Erased: Codable, Hashable, Sendable {
    /// Receipts and signed transactions.
    public var receipts: Int
    /// Receipts that waited for Apple.
    public var waitingReceipts: Int
    /// Texts that support wrote.
    public var notes: Int
    /// Devices with their push tokens.
    public var devices: Int
    /// Consumptions, totals and the time zone.
    public var usage: Int
    /// IDs under which an SDK knew the customer, with attributes.
    public var customers: Int
    /// Texts of Apple's notifications and of RevenueCat's events.
    public var notifications: Int
    /// Events of `GET /v1/events`.
    public var events: Int

    public init(
      receipts: Int, waitingReceipts: Int, notes: Int, devices: Int, usage: Int, customers: Int, notifications: Int,
      events: Int
    ) {
      self.receipts = receipts
      self.waitingReceipts = waitingReceipts
      self.notes = notes
      self.devices = devices
      self.usage = usage
      self.customers = customers
      self.notifications = notifications
      self.events = events
    }

    enum CodingKeys: String, CodingKey {
      case receipts
      case waitingReceipts = "waiting_receipts"
      case notes, devices, usage, customers, notifications, events
    }
  }

  /// The rows that stay without the name.
  public struct Kept: Codable, Hashable, Sendable {
    /// Purchases; they stay reserved, so that nobody else can claim them.
    public var purchases: Int
    /// Lines of the history.
    public var history: Int
    /// Grants and periods of trials, ended.
    public var grants: Int
    /// Trials, whose devices get no second one.
    public var trials: Int

    public init(purchases: Int, history: Int, grants: Int, trials: Int) {
      self.purchases = purchases
      self.history = history
      self.grants = grants
      self.trials = trials
    }
  }

  public var userID: String
  /// `committed`: the profile row is reset. `queued`: the store is slow or away; the ID is kept until the row is reset.
  /// `missing`: there is no such row. `none`: there was nothing to reset.
  public var profileWrite: EntitlementResponse.ProfileWrite
  public var erased: Erased
  public var kept: Kept

  public init(userID: String, profileWrite: EntitlementResponse.ProfileWrite, erased: Erased, kept: Kept) {
    self.userID = userID
    self.profileWrite = profileWrite
    self.erased = erased
    self.kept = kept
  }

  enum CodingKeys: String, CodingKey {
    case userID = "user_id"
    case profileWrite = "profile_write"
    case erased, kept
  }
}
