import { effect, useSignal } from '@preact/signals'
import { useCallback, useEffect } from 'preact/hooks'
import { ask, messageOf } from '../api.ts'
import { isVisible } from '../clock.ts'
import { isLost } from '../connection.ts'
import { LIVE_MS } from '../live.ts'
import type { Counters, RuleCaller } from './caller.ts'

/** What a caller has left, again and again while the page is visible. The values go in a body: addresses are logged. */
export function useCounters({ policy, rule, values }: RuleCaller) {
  const counters = useSignal<Counters | undefined>(undefined)
  const problem = useSignal('')
  const look = useCallback(async (): Promise<void> => {
    try {
      counters.value = await ask<Counters>('POST', 'counters', { policy, rule, values })
      problem.value = ''
    } catch (error) {
      problem.value = messageOf(error)
    }
  }, [policy, rule, values, counters, problem])
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined
    let isShown = true
    const again = async (): Promise<void> => {
      await look()
      if (isShown && isVisible.peek() && !isLost.peek()) timer = setTimeout(() => void again(), LIVE_MS)
    }
    const dispose = effect(() => {
      clearTimeout(timer)
      if (isVisible.value && !isLost.value) void again()
    })
    return () => {
      isShown = false
      clearTimeout(timer)
      dispose()
    }
  }, [look])
  return { counters, problem }
}
