import X509
import HummingbirdTLS
import SwiftASN1
print("x")
