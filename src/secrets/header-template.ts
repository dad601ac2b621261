/** The text of a header field in which `{NAME}` stands for a secret. */
export interface HeaderTemplate {
  /** The names of its secrets, each once. */
  readonly names: readonly string[]
  /** Its texts and, as `{ secret }`, what stands between them. */
  readonly parts: readonly (string | { readonly secret: string })[]
}

/** The secrets that a thread knows. */
export interface SecretValues {
  /** Throws if it is not known: a bundle becomes active only after its secrets. */
  valueOf(name: string): string
}

/** What a template looks like, to complete "expected …". */
export const HEADER_TEMPLATE =
  'a text in which each secret is {NAME}, of upper-case letters, digits and _, and a literal brace is {{ or }}; at most 4 secrets'

/** A field with more of them could become longer than any server accepts. */
const MAX_SECRETS = 4
const PART = /\{([A-Z][A-Z0-9_]{0,127})\}|\{\{|\}\}|[^{}]+/y

/** Returns undefined if a brace is neither part of a `{NAME}` nor doubled, or if there are too many secrets. */
export function parseHeaderTemplate(text: string): HeaderTemplate | undefined {
  const parts: (string | { readonly secret: string })[] = []
  const names = new Set<string>()
  let secrets = 0
  for (PART.lastIndex = 0; PART.lastIndex < text.length; ) {
    const [part, secret] = PART.exec(text) ?? []
    if (part === undefined) return undefined
    if (secret !== undefined) {
      if (++secrets > MAX_SECRETS) return undefined
      names.add(secret)
      parts.push({ secret })
    } else {
      const literal = part === '{{' || part === '}}' ? part[0]! : part
      const last = parts.at(-1)
      if (typeof last === 'string') parts[parts.length - 1] = last + literal
      else parts.push(literal)
    }
  }
  return { names: [...names], parts }
}

/** Returns the value of the field. A secret is inserted as it is: braces in it have no meaning. */
export function renderHeader({ parts }: HeaderTemplate, secrets: SecretValues): string {
  let value = ''
  for (const part of parts) value += typeof part === 'string' ? part : secrets.valueOf(part.secret)
  return value
}
