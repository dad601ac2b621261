import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto'

/** A key pair as `edge keygen` makes it. */
export function newSigner(): Signer {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  return new Signer(privateKey, publicKey)
}

export class Signer {
  readonly #privateKey: KeyObject
  readonly #publicKey: KeyObject

  constructor(privateKey: KeyObject, publicKey: KeyObject) {
    this.#privateKey = privateKey
    this.#publicKey = publicKey
  }

  /** As EDGE_CONFIG_PUBLIC_KEY takes it. */
  get publicText(): string {
    return this.#publicKey.export({ format: 'der', type: 'spki' }).subarray(-32).toString('base64')
  }

  get privatePem(): string {
    return this.#privateKey.export({ format: 'pem', type: 'pkcs8' }).toString()
  }

  sign(content: string | Buffer): string {
    return sign(null, Buffer.from(content), this.#privateKey).toString('base64')
  }
}
