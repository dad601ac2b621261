/** The text of a header field in which `{NAME}` stands for a secret. */
export interface HeaderTemplate {
  /** The names of its secrets, each once. */
  readonly names: readonly string[]
  /** Its texts and, as `{ secret }`, what stands between them. */
  readonly parts: readonly (string | { readonly secret: string })[]
}

/** What a template looks like, to complete "expected …". */
export const HEADER_TEMPLATE = 'a text in which each secret is {NAME}, of upper-case letters, digits and _, and a literal brace is {{ or }}'

const PART = /\{([A-Z][A-Z0-9_]{0,127})\}|\{\{|\}\}|[^{}]+/y

/** Returns undefined if a brace is neither part of a `{NAME}` nor doubled. */
export function parseHeaderTemplate(text: string): HeaderTemplate | undefined {
  const parts: (string | { readonly secret: string })[] = []
  const names = new Set<string>()
  for (PART.lastIndex = 0; PART.lastIndex < text.length; ) {
    const [part, secret] = PART.exec(text) ?? []
    if (part === undefined) return undefined
    if (secret !== undefined) {
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
