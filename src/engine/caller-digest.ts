/** Names a caller by its values: 16 hexadecimal digits, the same for the same values. */
export type CallerDigest = (values: readonly string[]) => string
