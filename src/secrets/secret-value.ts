/** The longest secret; tokens with many claims have some thousands of characters. */
const MAX_SECRET_BYTES = 16 * 1024
/** The longest file: a secret and the end of its line. */
export const MAX_SECRET_FILE_BYTES = MAX_SECRET_BYTES + 2

const VARIABLE = /^EDGE_SECRET_([A-Z][A-Z0-9_]{0,127})$/
/** This is a misspelled EDGE_SECRETS_DIR far more often than a secret, and operators are warned of it. */
const MISSPELLED = 'EDGE_SECRET_DIR'

type SecretReading = { readonly value: string } | { readonly problem: string }

/** Reads the content of a file or a variable. The problem completes "it …", and never quotes any part of the secret. */
export function readSecretText(content: Buffer): SecretReading {
  // Editors and `echo` end the last line, and that is no part of the secret.
  const end = content.at(-1) === 0x0a ? (content.at(-2) === 0x0d ? content.length - 2 : content.length - 1) : content.length
  if (end === 0) return { problem: 'is empty' }
  if (end > MAX_SECRET_BYTES) return { problem: `has more than ${MAX_SECRET_BYTES} bytes` }
  const value = content.toString('utf8', 0, end)
  if (/\p{Cc}/u.test(value)) return { problem: 'contains a line break or another control character' }
  if (/[^ -~]/.test(value)) return { problem: 'contains a character that is not ASCII, or begins with a byte order mark' }
  if (value.startsWith(' ') || value.endsWith(' ')) return { problem: 'begins or ends with a space' }
  return { value }
}

export interface SecretVariables {
  readonly secrets: ReadonlyMap<string, string>
  readonly problems: readonly string[]
}

/** Reads all secrets that are variables. An empty one counts as unset, as with settings. */
export function readSecretVariables(env: Readonly<Record<string, string | undefined>>): SecretVariables {
  const secrets = new Map<string, string>()
  const problems: string[] = []
  for (const [variable, text] of Object.entries(env)) {
    const name = secretNameOf(variable)
    if (name === undefined || !text) continue
    const reading = readSecretText(Buffer.from(text))
    if ('value' in reading) secrets.set(name, reading.value)
    else problems.push(`${variable}: expected a secret that fits into a header field, but it ${reading.problem}`)
  }
  return { secrets, problems }
}

/** Returns the name of the secret that this variable has; undefined if it has none. */
export function secretNameOf(variable: string): string | undefined {
  return variable === MISSPELLED ? undefined : VARIABLE.exec(variable)?.[1]
}

export function variableOf(name: string): string {
  return `EDGE_SECRET_${name}`
}
