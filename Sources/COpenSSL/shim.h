#ifndef COUNTERSIGN_COPENSSL_SHIM_H
#define COUNTERSIGN_COPENSSL_SHIM_H

#include <openssl/asn1.h>
#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/cms.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/objects.h>
#include <openssl/pem.h>
#include <openssl/pkcs7.h>
#include <openssl/rsa.h>
#include <openssl/sha.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

/* OpenSSL's typed stacks and some calls are macros, which Swift does not import: one function for each that is used. */

static inline int countersign_sk_X509_num(const STACK_OF(X509) *stack) { return sk_X509_num(stack); }

static inline X509 *countersign_sk_X509_value(const STACK_OF(X509) *stack, int index) {
  return sk_X509_value(stack, index);
}

static inline STACK_OF(X509) *countersign_sk_X509_new_null(void) { return sk_X509_new_null(); }

static inline int countersign_sk_X509_push(STACK_OF(X509) *stack, X509 *certificate) {
  return sk_X509_push(stack, certificate);
}

/* Frees the stack, not what is in it. */
static inline void countersign_sk_X509_free(STACK_OF(X509) *stack) { sk_X509_free(stack); }

static inline void countersign_sk_X509_pop_free(STACK_OF(X509) *stack) { sk_X509_pop_free(stack, X509_free); }

/* The stack belongs to the message and is not to be freed. */
static inline int countersign_sk_CMS_SignerInfo_num(const STACK_OF(CMS_SignerInfo) *stack) {
  return sk_CMS_SignerInfo_num(stack);
}

static inline CMS_SignerInfo *countersign_sk_CMS_SignerInfo_value(const STACK_OF(CMS_SignerInfo) *stack, int index) {
  return sk_CMS_SignerInfo_value(stack, index);
}

/* The octets belong to the BIO and live as long as it does. */
static inline long countersign_BIO_get_mem_data(BIO *bio, char **data) { return BIO_get_mem_data(bio, data); }

/* The flags of XN_FLAG_RFC2253 are casts, which Swift does not import either. */
static inline int countersign_X509_NAME_print_RFC2253(BIO *bio, const X509_NAME *name) {
  return X509_NAME_print_ex(bio, name, 0, XN_FLAG_RFC2253);
}

static inline void countersign_OPENSSL_free(void *memory) { OPENSSL_free(memory); }

#endif
