import { formatPath } from '../text/problem.ts'
import { parseHeaderTemplate } from './header-template.ts'

/** A secret that a bundle names. */
export interface SecretUse {
  readonly name: string
  /** Where the bundle names it first, as problems show it. */
  readonly path: string
}

/** A bundle, as far as it may name secrets. */
interface WithBackends {
  readonly policies: unknown
  readonly backends?: Readonly<Record<string, { readonly headers?: Readonly<Record<string, string>> | undefined }>> | undefined
}

/** Returns the secrets of a bundle, each once. */
export function secretUsesOf({ backends = {} }: WithBackends): SecretUse[] {
  const uses = new Map<string, SecretUse>()
  for (const [backend, { headers = {} }] of Object.entries(backends)) {
    for (const [field, text] of Object.entries(headers)) {
      for (const name of parseHeaderTemplate(text)?.names ?? []) {
        if (!uses.has(name)) uses.set(name, { name, path: formatPath(['backends', backend, 'headers', field]) })
      }
    }
  }
  return [...uses.values()]
}
