import { signal } from '@preact/signals'

/** The address after `#`: `#/callers?policy=api` is the view `callers`, asked for the policy `api`. */
interface Address {
  readonly view: string
  readonly parameters: URLSearchParams
}

export const address = signal(read(location.hash))

addEventListener('hashchange', () => {
  address.value = read(location.hash)
})

/** An address to be used in a link. */
export function addressOf(view: string, parameters: Readonly<Record<string, string>> = {}): string {
  const query = new URLSearchParams(parameters).toString()
  return `#/${view}${query === '' ? '' : `?${query}`}`
}

function read(hash: string): Address {
  const [view, query] = hash.replace(/^#\/?/, '').split('?', 2)
  return { view: view!, parameters: new URLSearchParams(query ?? '') }
}
