import Glibc

/// A port of 127.0.0.1 that stays its owner's, whether or not the owner listens on it just now.
///
/// A bound socket that does not listen: connections are refused, the kernel gives the port to nobody who asks for a free one,
/// and a listener that names the port, with SO_REUSEADDR, gets it.
package final class ReservedPort: Sendable {
  package struct Failure: Error {
    package let errno: CInt
  }

  package let number: Int
  private let descriptor: CInt

  package init() throws(Failure) {
    let descriptor = socket(AF_INET, CInt(SOCK_STREAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue), 0)
    guard descriptor >= 0 else { throw Failure(errno: errno) }
    var reuse: CInt = 1
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = in_addr_t(INADDR_LOOPBACK).bigEndian
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    let isBound = withUnsafeMutablePointer(to: &address) { address in
      address.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
        setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &reuse, socklen_t(MemoryLayout<CInt>.size)) == 0
          && bind(descriptor, address, length) == 0 && getsockname(descriptor, address, &length) == 0
      }
    }
    guard isBound else {
      let failure = Failure(errno: errno)
      close(descriptor)
      throw failure
    }
    self.descriptor = descriptor
    number = Int(UInt16(bigEndian: address.sin_port))
  }

  deinit { close(descriptor) }
}
