/** The order of the group that each algorithm signs in, as SEC 2 has it. */
const ORDERS: Readonly<Record<string, bigint>> = {
  ES256: 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n,
  ES256K: 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n,
  ES384: 0xffffffffffffffffffffffffffffffffffffffffffffffffc7634d81f4372ddf581a0db248b0a77aecec196accc52973n,
  ES512:
    0x1fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffa51868783bf2f966b7fcc0148f709a5d03bb5c9b8899c47aebb6fb71e91386409n,
}

/** Returns the token with the other signature that the same keys verify: n − s in place of s. It takes no key to make it. */
export function ecdsaTwin(token: string): string {
  const [header, payload, text] = token.split('.') as [string, string, string]
  const { alg } = JSON.parse(Buffer.from(header, 'base64url').toString()) as { alg: string }
  const signature = Buffer.from(text, 'base64url')
  const half = signature.length / 2
  const s = BigInt(`0x${signature.subarray(half).toString('hex')}`)
  const other = (ORDERS[alg]! - s).toString(16).padStart(half * 2, '0')
  return `${header}.${payload}.${Buffer.concat([signature.subarray(0, half), Buffer.from(other, 'hex')]).toString('base64url')}`
}
