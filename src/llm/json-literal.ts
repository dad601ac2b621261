export interface JsonLiteral {
  readonly bytes: readonly number[]
  readonly value: boolean | null
}

export const LITERALS: readonly JsonLiteral[] = [true, false, null].map((value) => ({
  bytes: Array.from(String(value), (letter) => letter.charCodeAt(0)),
  value,
}))
