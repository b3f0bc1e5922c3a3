import Foundation
import Testing

@testable import CountersignClient

#if canImport(Glibc)
  import Glibc

  /// URLSession against a real socket, with real time and a deadline of a second: one test after the other.
  @Suite(.serialized) struct TransportTests {
    private func request(_ server: Server, _ method: String = "GET") throws -> TransportRequest {
      TransportRequest(
        method: method, url: try #require(URL(string: "http://127.0.0.1:\(server.port)/v1/validations")),
        headers: ["Authorization": "Bearer secret"], body: method == "POST" ? Data("{}".utf8) : nil)
    }

    @Test func `a request arrives whole, and so does its answer`() async throws {
      let server = try #require(Server("HTTP/1.1 202 Accepted\r\nETag: \"1\"\r\nContent-Length: 5\r\n\r\nhello"))
      let answer = try await URLSessionTransport().send(request(server, "POST"))
      #expect(answer.status == 202 && answer.body == Data("hello".utf8) && answer.headers["etag"] == "\"1\"")
      let received = server.received
      #expect(received.hasPrefix("POST /v1/validations HTTP/1.1\r\n"))
      #expect(received.contains("Authorization: Bearer secret\r\n") && received.hasSuffix("\r\n\r\n{}"))
    }

    @Test func `an answer that is too long is an error`() async throws {
      let body = String(repeating: "x", count: 5000)
      let server = try #require(Server("HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n\(body)"))
      let transport = URLSessionTransport(maximumLength: 4999)
      await #expect(throws: (any Error).self) { try await transport.send(request(server)) }
      #expect(server.received.hasPrefix("GET "))
      let other = try #require(Server("HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n\(body)"))
      #expect(try await URLSessionTransport(maximumLength: 5000).send(request(other)).body.count == 5000)
    }

    @Test func `a server that does not answer is given up at the deadline`() async throws {
      let silent = try #require(Server(""))
      let transport = URLSessionTransport(deadline: 1)
      let start = Date()
      await #expect(throws: (any Error).self) { try await transport.send(request(silent)) }
      #expect((0.5...60).contains(Date().timeIntervalSince(start)))
      #expect(await eventually { silent.received.hasPrefix("GET ") })
    }

    @Test func `a redirect is an answer, and is not followed`() async throws {
      let other = try #require(Server("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
      let server = try #require(
        Server(
          "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:\(other.port)/\r\nContent-Length: 0\r\n"
            + "Connection: close\r\n\r\n"))
      let answer = try? await URLSessionTransport(deadline: 2).send(request(server))
      #expect(answer == nil || answer?.status == 302)
      #expect(server.received.hasPrefix("GET ") && other.received.isEmpty)
    }

    @Test func `a cancelled call ends at once`() async throws {
      let silent = try #require(Server(""))
      let request = try request(silent)
      let call = Task { try await URLSessionTransport(deadline: 60).send(request) }
      #expect(await eventually { silent.received.hasPrefix("GET ") })
      call.cancel()
      await #expect(throws: (any Error).self) { try await call.value }
    }

    @Test func `calls that were cancelled before they began end, too`() async throws {
      let transport = URLSessionTransport(deadline: 60)
      let url = try #require(URL(string: "http://127.0.0.1:9/"))
      let ended = Locked(0)
      for _ in 0..<3000 {
        let call = Task {
          _ = try? await transport.send(TransportRequest(method: "GET", url: url))
          ended.withLock { $0 += 1 }
        }
        call.cancel()
      }
      #expect(await eventually { ended.withLock { $0 } == 3000 })
    }
  }

  /// Reads one request, and writes the same answer to whoever comes; to say nothing it is given none.
  private final class Server: Sendable {
    let port: UInt16
    private let socket: Int32
    private let text = Locked("")
    var received: String { text.withLock { $0 } }

    init?(_ answer: String) {
      socket = Glibc.socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
      var address = sockaddr_in()
      address.sin_family = sa_family_t(AF_INET)
      address.sin_addr.s_addr = inet_addr("127.0.0.1")
      var length = socklen_t(MemoryLayout<sockaddr_in>.size)
      let (socket, text) = (socket, text)
      let isBound = withUnsafeMutablePointer(to: &address) { pointer in
        pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
          bind(socket, $0, length) == 0 && listen(socket, 8) == 0 && getsockname(socket, $0, &length) == 0
        }
      }
      port = UInt16(bigEndian: address.sin_port)
      guard isBound else { return nil }
      Thread.detachNewThread {
        while true {
          let connection = accept(socket, nil, nil)
          guard connection >= 0 else { return }
          var buffer = [UInt8](repeating: 0, count: 65_536)
          var request = ""
          while !request.contains("\r\n\r\n") || (request.hasPrefix("POST") && !request.hasSuffix("{}")) {
            let count = read(connection, &buffer, buffer.count)
            guard count > 0 else { break }
            request += String(decoding: buffer[..<count], as: UTF8.self)
          }
          text.withLock { $0 += request }
          guard !answer.isEmpty else { continue }
          _ = answer.withCString { send(connection, $0, strlen($0), Int32(MSG_NOSIGNAL)) }
          close(connection)
        }
      }
    }

    deinit {
      shutdown(socket, Int32(SHUT_RDWR))
      close(socket)
    }
  }
#endif
