import { effect, useSignal } from '@preact/signals'
import { useCallback, useEffect } from 'preact/hooks'
import type { CountersJson, CountersRequest } from '../../src/admin/api/types.ts'
import { ask, messageOf } from '../api.ts'
import type { RuleCaller } from '../caller-values.ts'
import { isVisible } from '../clock.ts'
import { isLost } from '../connection.ts'
import { LIVE_MS } from '../live.ts'
import { csrfToken } from '../session.ts'

/** Polls what a caller has left while the page is visible. The values are sent in a body, because addresses are logged. */
export function useCounters({ policy, rule, values }: RuleCaller) {
  const counters = useSignal<CountersJson | undefined>(undefined)
  const problem = useSignal('')
  const look = useCallback(async (): Promise<void> => {
    try {
      counters.value = await ask<CountersJson>('POST', 'counters', { policy, rule, values } satisfies CountersRequest)
      problem.value = ''
    } catch (error) {
      problem.value = messageOf(error)
    }
  }, [policy, rule, values, counters, problem])
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined
    let round = 0
    const again = async (): Promise<void> => {
      const current = ++round
      await look()
      if (current === round) timer = setTimeout(() => void again(), LIVE_MS)
    }
    const stop = (): void => {
      clearTimeout(timer)
      round++
    }
    const dispose = effect(() => {
      stop()
      if (isVisible.value && !isLost.value && csrfToken.value) void again()
    })
    return () => {
      stop()
      dispose()
    }
  }, [look])
  return { counters, problem }
}
