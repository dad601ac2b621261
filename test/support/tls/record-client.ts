import { createCipheriv, createDecipheriv, createHash, createHmac, createPublicKey, diffieHellman, generateKeyPairSync } from 'node:crypto'
import { RawClient } from '../proxy/proxy.ts'
import { thisTest } from '../service/running.ts'
import { until } from '../until.ts'

const [ALERT, HANDSHAKE, APPLICATION_DATA] = [21, 22, 23]
const FINISHED = 20
/** The first bytes of an X25519 key in DER, before its 32 bytes. */
const X25519_DER = Buffer.from('302a300506032b656e032100', 'hex')

/**
 * A client of TLS 1.3 that chooses each of its records, which no library allows. It speaks TLS_AES_128_GCM_SHA256 with X25519 alone, and trusts
 * everybody.
 */
export class RecordClient {
  readonly #raw: RawClient
  readonly #keys = generateKeyPairSync('x25519')
  /** All handshake messages so far. */
  #transcript: Buffer
  #taken = 0
  #reading: Traffic | undefined
  #writing!: Traffic
  /** Plain text that has come, a character a byte. */
  received = ''
  /** The number of each alert that has come. */
  readonly alerts: number[] = []

  private constructor(port: number, hello: (keyShare: Buffer) => Buffer) {
    this.#raw = RawClient.connect(port, thisTest)
    this.#transcript = hello(this.#keys.publicKey.export({ type: 'spki', format: 'der' }).subarray(-32))
  }

  /** Resolves when the handshake is over. */
  static async connected(port: number): Promise<RecordClient> {
    const client = new RecordClient(port, (keyShare) => clientHello([keyShareExtension(keyShare)]))
    await client.#shakeHands()
    return client
  }

  get isClosed(): boolean {
    return this.#raw.isClosed
  }

  /** Sends a question, or anything, in a record of its own. */
  send(content: string | Buffer): void {
    this.sendRecord(APPLICATION_DATA!, Buffer.from(content as string, 'latin1'))
  }

  /** Asks for new keys, and uses new ones from now on. */
  updateKeys(): void {
    this.sendRecord(HANDSHAKE!, Buffer.from([24, 0, 0, 1, 1]))
    this.#writing = this.#writing.next()
  }

  sendWarning(): void {
    this.sendRecord(ALERT!, Buffer.from([1, 90]))
  }

  sendRecord(type: number, content: Buffer): void {
    this.#raw.send(this.#writing.seal(type, content))
  }

  /** Sends bytes below the records. */
  sendRaw(bytes: Buffer): void {
    this.#raw.send(bytes)
  }

  /** Waits until a condition holds, reading what comes meanwhile, or until the connection is closed. */
  async until(isReached: () => boolean): Promise<void> {
    await until(() => {
      this.#read()
      return isReached() || this.isClosed
    })
    this.#read()
  }

  async #shakeHands(): Promise<void> {
    this.#raw.send(record(HANDSHAKE!, this.#transcript))
    const serverHello = await this.#serverHello()
    this.#transcript = Buffer.concat([this.#transcript, serverHello.subarray(5)])
    const publicKey = createPublicKey({ key: Buffer.concat([X25519_DER, keyShareOf(serverHello)]), type: 'spki', format: 'der' })
    const shared = diffieHellman({ privateKey: this.#keys.privateKey, publicKey })
    const none = Buffer.alloc(32)
    const handshakeSecret = hmac(derived(hmac(none, none)), shared)
    const helloHash = sha256(this.#transcript)
    const own = expandLabel(handshakeSecret, 'c hs traffic', helloHash, 32)
    this.#reading = new Traffic(expandLabel(handshakeSecret, 's hs traffic', helloHash, 32))
    let flight = Buffer.alloc(0)
    await until(() => {
      for (let next = this.#nextRecord(); next !== undefined; next = this.#nextRecord()) {
        if (next[0] === APPLICATION_DATA) flight = Buffer.concat([flight, this.#reading!.open(next).content])
      }
      return endsWithFinished(flight)
    })
    this.#transcript = Buffer.concat([this.#transcript, flight])
    const transcriptHash = sha256(this.#transcript)
    const masterSecret = hmac(derived(handshakeSecret), none)
    this.#reading = new Traffic(expandLabel(masterSecret, 's ap traffic', transcriptHash, 32))
    const verification = hmac(expandLabel(own, 'finished', Buffer.alloc(0), 32), transcriptHash)
    this.#raw.send(new Traffic(own).seal(HANDSHAKE!, Buffer.concat([Buffer.from([FINISHED, 0, 0, 32]), verification])))
    this.#writing = new Traffic(expandLabel(masterSecret, 'c ap traffic', transcriptHash, 32))
  }

  async #serverHello(): Promise<Buffer> {
    const records: Buffer[] = []
    await until(() => {
      const next = this.#nextRecord()
      if (next !== undefined) records.push(next)
      else if (this.isClosed) throw new Error('the connection was closed instead of a ServerHello')
      return next !== undefined
    })
    return records[0]!
  }

  #read(): void {
    for (let next = this.#nextRecord(); next !== undefined; next = this.#nextRecord()) {
      const { type, content } = this.#reading!.open(next)
      if (type === APPLICATION_DATA) this.received += content.toString('latin1')
      else if (type === ALERT) this.alerts.push(content[1]!)
      // The other side has new keys as well; anything else is a ticket.
      else if (content[0] === 24) this.#reading = this.#reading!.next()
    }
  }

  #nextRecord(): Buffer | undefined {
    const bytes = Buffer.from(this.#raw.received.slice(this.#taken), 'latin1')
    if (bytes.length < 5 || bytes.length < 5 + bytes.readUInt16BE(3)) return undefined
    const whole = bytes.subarray(0, 5 + bytes.readUInt16BE(3))
    this.#taken += whole.length
    // This one has no meaning any more.
    return whole[0] === 20 ? this.#nextRecord() : whole
  }
}

/** The keys of one direction. */
class Traffic {
  readonly #secret: Buffer
  readonly #key: Buffer
  readonly #iv: Buffer
  #count = 0n

  constructor(secret: Buffer) {
    this.#secret = secret
    this.#key = expandLabel(secret, 'key', Buffer.alloc(0), 16)
    this.#iv = expandLabel(secret, 'iv', Buffer.alloc(0), 12)
  }

  next(): Traffic {
    return new Traffic(expandLabel(this.#secret, 'traffic upd', Buffer.alloc(0), 32))
  }

  seal(type: number, content: Buffer): Buffer {
    const head = recordHead(APPLICATION_DATA!, content.length + 17)
    const cipher = createCipheriv('aes-128-gcm', this.#key, this.#nonce()).setAAD(head)
    return Buffer.concat([head, cipher.update(content), cipher.update(Buffer.of(type)), cipher.final(), cipher.getAuthTag()])
  }

  open(sealed: Buffer): { readonly type: number; readonly content: Buffer } {
    const decipher = createDecipheriv('aes-128-gcm', this.#key, this.#nonce())
      .setAAD(sealed.subarray(0, 5))
      .setAuthTag(sealed.subarray(-16))
    const inner = Buffer.concat([decipher.update(sealed.subarray(5, -16)), decipher.final()])
    return { type: inner.at(-1)!, content: inner.subarray(0, -1) }
  }

  #nonce(): Buffer {
    const nonce = Buffer.from(this.#iv)
    nonce.writeBigUInt64BE(nonce.readBigUInt64BE(4) ^ this.#count++, 4)
    return nonce
  }
}

/** A ClientHello with these extensions besides those that it cannot do without, as a message. */
export function clientHello(extensions: readonly Buffer[]): Buffer {
  const all = Buffer.concat([
    extension(43, Buffer.from([2, 3, 4])), // TLS 1.3
    extension(10, Buffer.from([0, 2, 0, 29])), // X25519
    extension(13, Buffer.from([0, 6, 4, 3, 8, 4, 8, 7])), // signatures
    ...extensions,
  ])
  const body = Buffer.concat([Buffer.from([3, 3]), Buffer.alloc(32, 7), Buffer.from([0, 0, 2, 0x13, 1, 1, 0]), withLength(2, all)])
  return Buffer.concat([Buffer.of(1), withLength(3, body)])
}

export function extension(type: number, content: Buffer): Buffer {
  return Buffer.concat([Buffer.of(type >> 8, type & 255), withLength(2, content)])
}

/** The extension that asks for this host (SNI). */
export function serverName(host: string): Buffer {
  return extension(0, withLength(2, Buffer.concat([Buffer.of(0), withLength(2, Buffer.from(host, 'latin1'))])))
}

/** A key share of a client that never reads on. */
export function anyKeyShare(): Buffer {
  return keyShareExtension(generateKeyPairSync('x25519').publicKey.export({ type: 'spki', format: 'der' }).subarray(-32))
}

/** Puts a handshake message into records of at most this size. */
export function recordsOf(message: Buffer, size = 16_384): Buffer {
  const pieces: Buffer[] = []
  for (let at = 0; at < message.length; at += size) pieces.push(record(HANDSHAKE!, message.subarray(at, at + size)))
  return Buffer.concat(pieces)
}

function keyShareExtension(keyShare: Buffer): Buffer {
  return extension(51, withLength(2, Buffer.concat([Buffer.from([0, 29]), withLength(2, keyShare)])))
}

/** The server's key share is the last 32 bytes of its extension 51, which OpenSSL sends last. */
function keyShareOf(serverHello: Buffer): Buffer {
  const at = serverHello.indexOf(Buffer.from([0, 51, 0, 36, 0, 29, 0, 32]))
  return serverHello.subarray(at + 8, at + 40)
}

function endsWithFinished(flight: Buffer): boolean {
  for (let at = 0; at + 4 <= flight.length; at += 4 + flight.readUIntBE(at + 1, 3)) {
    if (flight[at] === FINISHED) return flight.length >= at + 36
  }
  return false
}

function record(type: number, content: Buffer): Buffer {
  return Buffer.concat([recordHead(type, content.length), content])
}

function recordHead(type: number, length: number): Buffer {
  return Buffer.from([type, 3, 3, length >> 8, length & 255])
}

function withLength(bytes: number, content: Buffer): Buffer {
  const length = Buffer.alloc(bytes)
  length.writeUIntBE(content.length, 0, bytes)
  return Buffer.concat([length, content])
}

function derived(secret: Buffer): Buffer {
  return expandLabel(secret, 'derived', sha256(Buffer.alloc(0)), 32)
}

/** RFC 8446 7.1. One round of HKDF is enough for all lengths here. */
function expandLabel(secret: Buffer, label: string, context: Buffer, length: number): Buffer {
  const info = Buffer.concat([Buffer.of(0, length), withLength(1, Buffer.from(`tls13 ${label}`)), withLength(1, context), Buffer.of(1)])
  return hmac(secret, info).subarray(0, length)
}

function hmac(key: Buffer, bytes: Buffer): Buffer {
  return createHmac('sha256', key).update(bytes).digest()
}

function sha256(bytes: Buffer): Buffer {
  return createHash('sha256').update(bytes).digest()
}
