/// Who asks, as the API tells the database.
enum Caller: Hashable, Sendable {
  case anon
  case user(String)
  case service

  var role: String {
    switch self {
    case .anon: "anon"
    case .user: "authenticated"
    case .service: "service_role"
    }
  }

  /// The token's claims as JSON.
  var claims: String {
    switch self {
    case .anon, .service: #"{"role":"\#(role)"}"#
    case .user(let id): #"{"role":"authenticated","sub":"\#(id)"}"#
    }
  }

  static let a = Caller.user(UserIDs.a)
  static let b = Caller.user(UserIDs.b)
  /// Has an account and no profile.
  static let c = Caller.user(UserIDs.c)
}

/// As in `SQL/App.sql`.
enum UserIDs {
  static let a = "00000000-0000-4000-8000-00000000000a"
  static let b = "00000000-0000-4000-8000-00000000000b"
  static let c = "00000000-0000-4000-8000-00000000000c"
  static let d = "00000000-0000-4000-8000-00000000000d"
}
