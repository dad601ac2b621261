import { signal } from '@preact/signals'

/** The view that the address names after `#`, such as `overrides`. */
export const view = signal(viewOf(location.hash))

addEventListener('hashchange', () => {
  view.value = viewOf(location.hash)
})

function viewOf(hash: string): string {
  return hash.replace(/^#\/?/, '').split('?', 1)[0]!
}
