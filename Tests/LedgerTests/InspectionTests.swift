import LedgerFixtures
import Testing

@testable import Ledger

/// The kind of file system that a ledger lies on.
@Suite(.ofTheFile) struct InspectionTests {
  static let mounts = """
    22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
    30 22 0:45 / /mnt/share rw,relatime shared:9 - nfs4 server:/share rw
    31 22 259:300 / /data rw - xfs /dev/nvme rw
    broken line
    33 22 0:47 / /odd rw
    """

  @Test(
    arguments: [
      (0x801, "ext4"), (0x2d, "nfs4"), (0x1_1032c, "xfs"), (0x2f, nil), (0x909, nil),
    ] as [(UInt64, String?)])
  func `a device is looked up by its number`(device: UInt64, name: String?) {
    #expect(LedgerInspection.fileSystem(of: device, in: Self.mounts) == name)
  }

  @Test func `file systems that forget or are far away are named`() {
    for name in ["nfs4", "cifs", "tmpfs", "overlay"] {
      #expect(LedgerInspection.problem(fileSystem: name) != nil, "\(name)")
    }
    for name in ["ext4", "xfs", "btrfs", "zfs"] {
      #expect(LedgerInspection.problem(fileSystem: name) == nil, "\(name)")
    }
  }
}
