import { signal } from '@preact/signals'

/** The address after `#`: `#/callers?policy=api` is the view `callers` with the policy `api` as a parameter. */
interface Address {
  readonly view: string
  readonly parameters: URLSearchParams
}

export const address = signal(read(location.hash))

addEventListener('hashchange', () => {
  address.value = read(location.hash)
})

/** Returns an address for a link. */
export function addressOf(view: string, parameters: Readonly<Record<string, string>> = {}): string {
  const query = new URLSearchParams(parameters).toString()
  return `#/${view}${query === '' ? '' : `?${query}`}`
}

function read(hash: string): Address {
  const [view, query] = hash.replace(/^#\/?/, '').split('?', 2)
  return { view: view!, parameters: new URLSearchParams(query ?? '') }
}
