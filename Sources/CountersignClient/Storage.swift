import Foundation

#if canImport(Security)
  import Security
#endif

/// The place of the signed token, the service's keys and the posts that wait. It has to survive a restart of
/// the app, and to be readable by the app alone.
public protocol Storage: Sendable {
  /// `nil` where nothing is kept under the name.
  func read(_ name: String) throws -> Data?
  /// Replaces what is kept under the name; `nil` removes it.
  func write(_ data: Data?, to name: String) throws
}

/// Files that only this user of the system can read (mode 0600), in a folder of their own (0700).
public struct FileStorage: Storage {
  private let directory: URL

  /// Makes the folder, if it is not there. Its parent has to be there, or to be makeable.
  public init(directory: URL) {
    self.directory = directory
  }

  public func read(_ name: String) throws -> Data? {
    let file = file(name)
    guard FileManager.default.fileExists(atPath: file.path) else { return nil }
    return try Data(contentsOf: file)
  }

  public func write(_ data: Data?, to name: String) throws {
    let file = file(name)
    guard let data else {
      if FileManager.default.fileExists(atPath: file.path) { try FileManager.default.removeItem(at: file) }
      return
    }
    // Nobody else may enter the folder, so the file's own mode may follow its content.
    try FileManager.default.createDirectory(
      at: directory, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
    try data.write(to: file, options: .atomic)
    try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: file.path)
  }

  /// A user's ID is part of a name, and need not be a good name for a file.
  private func file(_ name: String) -> URL {
    let allowed = CharacterSet(charactersIn: "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._@-")
    return directory.appendingPathComponent(name.addingPercentEncoding(withAllowedCharacters: allowed) ?? "unnamed")
  }
}

#if canImport(Security)
  /// The keychain of this device. Nothing of it goes into a backup or to another device.
  public struct KeychainStorage: Storage {
    private let service: String

    /// - Parameter service: the keychain's name for what is kept; two clients of one app may share it.
    public init(service: String = "countersign") {
      self.service = service
    }

    public func read(_ name: String) throws -> Data? {
      var query = query(name)
      query[kSecReturnData as String] = true
      query[kSecMatchLimit as String] = kSecMatchLimitOne
      var item: CFTypeRef?
      let status = SecItemCopyMatching(query as CFDictionary, &item)
      if status == errSecItemNotFound { return nil }
      guard status == errSecSuccess else { throw KeychainError(status: status) }
      return item as? Data
    }

    public func write(_ data: Data?, to name: String) throws {
      let query = query(name)
      guard let data else {
        let status = SecItemDelete(query as CFDictionary)
        guard status == errSecSuccess || status == errSecItemNotFound else { throw KeychainError(status: status) }
        return
      }
      // After the first unlock, so that a renewal that arrives in the background can be kept.
      let values: [String: Any] = [
        kSecValueData as String: data,
        kSecAttrAccessible as String: kSecAttrAccessibleAfterFirstUnlockThisDeviceOnly,
      ]
      var status = SecItemUpdate(query as CFDictionary, values as CFDictionary)
      if status == errSecItemNotFound {
        status = SecItemAdd(query.merging(values) { $1 } as CFDictionary, nil)
      }
      guard status == errSecSuccess else { throw KeychainError(status: status) }
    }

    private func query(_ name: String) -> [String: Any] {
      [
        kSecClass as String: kSecClassGenericPassword,
        kSecAttrService as String: service,
        kSecAttrAccount as String: name,
        kSecUseDataProtectionKeychain as String: true,
      ]
    }
  }

  /// The keychain's own number for what went wrong: https://developer.apple.com/documentation/security/errsecsuccess
  public struct KeychainError: Error, Hashable {
    public var status: OSStatus
  }
#endif
