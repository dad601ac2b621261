import { type ReadonlySignal, useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { ApiFailure } from './api.ts'
import { isLost } from './connection.ts'
import { csrfToken } from './session.ts'

interface Loaded<Result> {
  /** Undefined until it is there. */
  readonly data: ReadonlySignal<Result | undefined>
  readonly failure: ReadonlySignal<string | undefined>
}

/**
 * Loads what does not change, once for each key. If edge does not respond or the session has ended, it is loaded again when that is over. The work stops
 * when the component is gone or wants something else; a `load` that was stopped returns undefined.
 */
export function useLoaded<Result>(key: string, load: (stop: AbortSignal) => Promise<Result | undefined>): Loaded<Result> {
  const data = useSignal<Result | undefined>(undefined)
  const failure = useSignal<string | undefined>(undefined)
  const loadedKey = useSignal('')
  const canAsk = !isLost.value && csrfToken.value !== null
  useEffect(() => {
    if (!canAsk || loadedKey.peek() === key) return
    const stop = new AbortController()
    data.value = undefined
    failure.value = undefined
    load(stop.signal).then(
      (result) => {
        if (stop.signal.aborted) return
        data.value = result
        loadedKey.value = key
      },
      (error: unknown) => {
        if (stop.signal.aborted) return
        // The header shows that edge is unreachable.
        if (error instanceof ApiFailure) failure.value = error.message
      },
    )
    return () => stop.abort()
  }, [key, canAsk])
  return { data, failure }
}
