import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto'
import { createSecureContext } from 'node:tls'

const BEGIN_CERTIFICATE = '-----BEGIN CERTIFICATE-----'

/** A certificate and its private key, as they are sent to workers. */
export interface CertificatePair {
  /** PEM: the certificate, then its chain. */
  readonly certificate: string
  /** PEM. It leaves the main thread only towards workers. */
  readonly key: string
  /** Names of hosts that the certificate is for, in lower case; one of a whole level begins with `*.`. */
  readonly names: readonly string[]
  readonly expiresAtMs: number
}

/** Either a pair that can be served, or what is wrong with it, as a sentence without a value of the key. */
export type PairReading = { readonly pair: CertificatePair } | { readonly problem: PairProblem }

interface PairProblem {
  /** Which of the two files has to be changed. */
  readonly at: 'certificate' | 'key'
  readonly message: string
}

/** Checks that a certificate and a key can be read and fit together. */
export function readPair(certificateBytes: Buffer, keyBytes: Buffer): PairReading {
  const [certificate, key] = [certificateBytes.toString('latin1'), keyBytes.toString('latin1')]
  const x509 = attempt(() => new X509Certificate(certificate))
  if (!(x509 instanceof X509Certificate) || !certificate.includes('-----BEGIN')) {
    return wrong('certificate', 'is not a certificate in PEM: expected a file that begins with -----BEGIN CERTIFICATE-----')
  }
  const privateKey = attempt(() => createPrivateKey(key))
  if (privateKey instanceof Error) return wrong('key', keyProblem(key))
  if (!x509.checkPrivateKey(privateKey as KeyObject)) return strangers(certificate, privateKey as KeyObject)
  // OpenSSL refuses keys that are too short, and chains that it cannot read.
  const context = attempt(() => createSecureContext({ cert: certificate, key }))
  if (context instanceof Error) return wrong('certificate', `cannot be served: ${reasonOf(context)}`)
  return { pair: { certificate, key, names: hostNames(x509.subjectAltName ?? ''), expiresAtMs: Date.parse(x509.validTo) } }
}

/** Returns why a file of certificate authorities cannot be used; undefined if it can. */
export function authoritiesProblem(bytes: Buffer): string | undefined {
  const isReadable = attempt(() => new X509Certificate(bytes)) instanceof X509Certificate
  const context = isReadable ? attempt(() => createSecureContext({ ca: bytes })) : undefined
  if (context === undefined) return 'has no certificate in PEM: expected a file that begins with -----BEGIN CERTIFICATE-----'
  return context instanceof Error ? `cannot be used: ${reasonOf(context)}` : undefined
}

function wrong(at: PairProblem['at'], message: string): PairReading {
  return { problem: { at, message } }
}

/** Says why a key and the first certificate of a file do not belong together. Often the chain is there in the wrong order. */
function strangers(certificates: string, key: KeyObject): PairReading {
  const [, , ...later] = certificates.split(BEGIN_CERTIFICATE)
  const fits = later.some((pem) => {
    const x509 = attempt(() => new X509Certificate(BEGIN_CERTIFICATE + pem))
    return x509 instanceof X509Certificate && x509.checkPrivateKey(key)
  })
  if (fits)
    return wrong(
      'certificate',
      'has its chain in the wrong order: the certificate of the server comes first, then those of its authorities',
    )
  return wrong('key', 'is not the private key of its certificate in EDGE_TLS_CERT_FILE')
}

function attempt<Result>(work: () => Result): Result | Error {
  try {
    return work()
  } catch (error) {
    return error as Error
  }
}

function keyProblem(pem: string): string {
  // Both forms of encrypted keys have this word, outside of what is encoded.
  if (pem.includes('ENCRYPTED')) return 'is protected by a passphrase: write it without one, with openssl pkey -in FILE -out FILE'
  return 'is not a private key in PEM: expected a file that begins with -----BEGIN PRIVATE KEY-----'
}

/** Messages of OpenSSL begin with numbers and the names of its files, of which only the last part means something to people. */
function reasonOf({ message }: Error): string {
  return message.trim().split(':').at(-1)!.trim() || message.trim()
}

/** Reads the host names of a subjectAltName as Node prints it, in which a name with unusual characters is quoted. Such names match no host. */
function hostNames(altName: string): string[] {
  const names = altName.split(', ').map((entry) => /^DNS:(\*\.)?([\w-]+(?:\.[\w-]+)*)$/.exec(entry))
  return names.flatMap((match) => (match === null ? [] : [`${match[1] ?? ''}${match[2]}`.toLowerCase()]))
}

/** Says which pair serves a host, for the names that clients ask for (SNI). */
export class ServerNames {
  readonly #pairs = new Map<string, number>()

  constructor(pairs: readonly Pick<CertificatePair, 'names'>[]) {
    for (const [index, { names }] of pairs.entries()) {
      // If two certificates have the same name, the first one serves it.
      for (const name of names) if (!this.#pairs.has(name)) this.#pairs.set(name, index)
    }
  }

  /** Returns the pair with this very name, else the one for the level above (RFC 6125 6.4.3), else the first one. */
  indexOf(host: string): number {
    const name = host.toLowerCase().replace(/\.$/, '')
    const exact = name.startsWith('*') ? undefined : this.#pairs.get(name)
    return exact ?? this.#pairs.get(`*${name.slice(name.indexOf('.'))}`) ?? 0
  }
}
