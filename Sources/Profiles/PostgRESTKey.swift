package import HTTPTransport
import JSON

/// The kind of a key, as far as its text shows. The server decides.
///
///     key                       apikey   Authorization   role
///     sb_secret_…               sent     not sent        service_role, given by Supabase's gateway
///     sb_publishable_…          never used: the app contains it, so anybody has it
///     three parts, a JWT        sent     Bearer          its claim `role`
///     anything else             sent     not sent        unknown
package enum PostgRESTKey: Hashable {
  /// A key that bypasses row level security.
  case service
  /// A public key: `anon`, `authenticated` or publishable.
  case everybodys
  /// The operator's own role, or one that cannot be read here.
  case unknown

  /// Only a JWT is sent as a token: PostgREST would respond PGRST301, "Expected 3 parts in JWT", to any other key.
  static func isToken(_ key: Secret) -> Bool { key.exposed.utf8.count { $0 == UInt8(ascii: ".") } == 2 }

  package static func kind(of key: Secret) -> PostgRESTKey {
    if key.exposed.hasPrefix("sb_publishable_") { return .everybodys }
    if key.exposed.hasPrefix("sb_secret_") { return .service }
    guard isToken(key) else { return .unknown }
    let parts = key.exposed.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
    guard parts.count == 3, let payload = Base64URL.decode(parts[1]) else { return .unknown }
    let claim = try? JSONReader.readAtOnce(payload) { claims throws(JSONError) in claims["role"]?.string }
    // These names are Supabase's. A self-hosted server has other roles that write.
    switch claim {
    case "service_role": return .service
    case "anon", "authenticated": return .everybodys
    default: return .unknown
    }
  }
}
