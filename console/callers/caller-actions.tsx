import type { SelectorJson } from '../../src/admin/api/types.ts'
import { callerName, isCut, type RuleCaller } from '../caller-values.ts'
import { draftExplain, isExplainable } from '../explain/drafted-request.ts'
import { addressOf } from '../navigation.ts'
import { draftOverride } from '../overrides/draft.ts'
import { Badge } from '../parts/badge.tsx'
import { Caller } from '../parts/caller.tsx'
import { ChangeButton } from '../parts/change-button.tsx'
import { openCaller } from './asked-caller.ts'

type Mode = 'enforce' | 'shadow'

/** Shows a caller as a link to its view, where there is one: everybody together is no caller, and a value that is cut does not find its own. */
export function CallerLink({ values }: Pick<RuleCaller, 'values'>) {
  if (Object.keys(values).length === 0 || isCut(values)) return <Caller values={values} />
  const open = (event: Event): void => {
    event.preventDefault()
    openCaller({ values })
  }
  return (
    <a class="caller-link" href={addressOf('caller')} onClick={open}>
      <Caller values={values} />
    </a>
  )
}

/** Shows a policy as a link to it, with one of its rules. A policy in shadow mode is marked, because it rejects nobody. */
export function RuleName({ policy, rule, mode }: { readonly policy: string; readonly rule: string; readonly mode: Mode }) {
  return (
    <span>
      <a href={addressOf('policies', { policy })}>{policy}</a> · {rule}
      {mode === 'shadow' && (
        <>
          {' '}
          <Badge tone="accent">shadow</Badge>
        </>
      )}
    </span>
  )
}

interface CallerActionsProps {
  readonly caller: RuleCaller
  /** What the policy covers, if it is known. */
  readonly selector?: SelectorJson
  /** Returns the credential that somebody typed for a key, if any. */
  readonly credentialOf?: (key: string) => string | undefined
  /** Each of these has a button if it is given. */
  readonly onCounters?: () => void
  readonly onReset?: (() => void) | undefined
}

/** What an operator can do about a caller of a rule, with everything filled in. */
export function CallerActions({ caller: { policy, rule, values }, selector, credentialOf, onCounters, onReset }: CallerActionsProps) {
  if (isCut(values)) return <span class="quiet">The value is cut: find it in full.</span>
  const name = callerName(values)
  const explain = (): Promise<void> =>
    draftExplain({ policy, values, ...(selector !== undefined && { selector }), ...(credentialOf !== undefined && { credentialOf }) })
  return (
    <div class="actions">
      {onCounters !== undefined && (
        <button type="button" onClick={onCounters}>
          Counters<span class="unseen"> of {name}</span>
        </button>
      )}
      {isExplainable(selector, values) && (
        <button type="button" onClick={() => void explain()}>
          Explain<span class="unseen"> {name}</span>
        </button>
      )}
      <ChangeButton onClick={() => draftOverride({ policy, rule, values })}>
        Override…<span class="unseen"> for {name}</span>
      </ChangeButton>
      {onReset !== undefined && (
        <ChangeButton onClick={onReset}>
          Reset…
          <span class="unseen">
            {' '}
            {policy} {rule}
          </span>
        </ChangeButton>
      )}
    </div>
  )
}
