import { type ReadonlySignal, useSignal } from '@preact/signals'
import { useLayoutEffect, useRef } from 'preact/hooks'
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
  const isLoaded = useRef(false)
  const canAsk = !isLost.value && csrfToken.value !== null
  // Both before the page is drawn: what was loaded for another key, or comes late, must not be shown as if it were of this one.
  useLayoutEffect(() => {
    isLoaded.current = false
    data.value = undefined
    failure.value = undefined
  }, [key])
  useLayoutEffect(() => {
    if (!canAsk || isLoaded.current) return
    const stop = new AbortController()
    failure.value = undefined
    load(stop.signal).then(
      (result) => {
        if (stop.signal.aborted) return
        data.value = result
        isLoaded.current = true
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
