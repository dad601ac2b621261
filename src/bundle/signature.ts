import { createPublicKey, type KeyObject, verify } from 'node:crypto'

/** Returns what is wrong with a bundle's signature, as the end of a sentence, or undefined if one of the keys signed these bytes. */
export function signatureProblem(bytes: Uint8Array, signature: string | undefined, keys: readonly KeyObject[]): string | undefined {
  // openssl breaks its output into lines.
  const text = signature?.replace(/\s+/g, '') ?? ''
  if (text === '') return 'it is not signed, and EDGE_CONFIG_PUBLIC_KEY is set'
  const count = text.split(',').filter((part) => decodeBase64(part) !== undefined).length
  if (count > 1) return `it has ${count} signatures, expected one: is X-Edge-Signature sent more than once?`
  const raw = decodeBase64(text)
  if (raw?.length !== SIGNATURE_BYTES) return `its signature is not base64 of ${SIGNATURE_BYTES} bytes, as edge sign writes it`
  if (keys.some((key) => verify(null, bytes, key, raw))) return undefined
  return 'its signature does not match: the bundle was changed after signing, or signed with a key that is not in EDGE_CONFIG_PUBLIC_KEY'
}

const SIGNATURE_BYTES = 64
const RAW_KEY_BYTES = 32
const PEM_BLOCK = /-----BEGIN PUBLIC KEY-----([^-]+)-----END PUBLIC KEY-----/g

/**
 * Reads one or more Ed25519 keys. Each is the base64 text of its 32 bytes or of its DER, separated by commas or white space, or a PEM block. Returns
 * undefined if any part of the text is something else, such as a private key.
 */
export function readPublicKeys(text: string): KeyObject[] | undefined {
  const words = text.replace(PEM_BLOCK, (_block, der: string) => ` ${der.replace(/\s/g, '')} `).split(/[\s,]+/)
  const keys = words.filter((word) => word !== '').map(readKey)
  return keys.length > 0 && keys.every((key) => key?.asymmetricKeyType === 'ed25519') ? (keys as KeyObject[]) : undefined
}

/** Returns a key in the one-line form that EDGE_CONFIG_PUBLIC_KEY accepts. */
export function publicKeyText(key: KeyObject): string {
  return Buffer.from(key.export({ format: 'jwk' }).x!, 'base64url').toString('base64')
}

function readKey(text: string): KeyObject | undefined {
  const bytes = decodeBase64(text)
  if (bytes === undefined) return undefined
  if (bytes.length === RAW_KEY_BYTES) {
    return createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x: bytes.toString('base64url') }, format: 'jwk' })
  }
  try {
    return createPublicKey({ key: bytes, format: 'der', type: 'spki' })
  } catch {
    return undefined
  }
}

/** Accepts either base64 alphabet, padded or not. Buffer.from alone would skip invalid characters. */
function decodeBase64(text: string): Buffer | undefined {
  return /^(?:[\w+/-]{4})*[\w+/-]{2,4}={0,2}$/.test(text) ? Buffer.from(text, 'base64') : undefined
}
