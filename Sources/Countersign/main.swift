import Hummingbird
import Yams
import ArgumentParser
import Configuration
import Crypto
print("x")
