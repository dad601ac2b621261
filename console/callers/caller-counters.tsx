import { useSignal } from '@preact/signals'
import { useRef } from 'preact/hooks'
import type { CallerRule, CallersJson } from '../../src/admin/api/caller-types.ts'
import { counterText, refillText } from '../amounts.ts'
import { isCredential, type RuleCaller } from '../caller-values.ts'
import { formatCount } from '../format.ts'
import { Badge } from '../parts/badge.tsx'
import { Caller } from '../parts/caller.tsx'
import { type Column, DataTable } from '../parts/data-table.tsx'
import { Level } from '../parts/level.tsx'
import { Panel } from '../parts/panel.tsx'
import { CallerActions, RuleName } from './caller-actions.tsx'
import { digestKeys } from './caller-headline.tsx'
import { isKnown } from './known-rule.ts'
import { type AskedCaller, typedCredential } from './read-asked.ts'
import { ResetDialog } from './reset-dialog.tsx'

interface CallerCountersProps {
  readonly asked: AskedCaller
  readonly found: CallersJson
  readonly onReset: (sentence: string) => Promise<void>
}

/** Shows what the caller has left of every rule: first of those that know it, then of those for which it has everything left. */
export function CallerCounters({ asked, found, onReset }: CallerCountersProps) {
  const resetting = useSignal<CallerRule | undefined>(undefined)
  // A rule that has known the caller stays where it is when its counters are full again.
  const everKnown = useRef(new Set<string>()).current
  for (const rule of found.rules) if (isKnown(rule, found)) everKnown.add(keyOf(rule))
  const known = found.rules.filter((rule) => everKnown.has(keyOf(rule)))
  const silent = found.rules.filter((rule) => !everKnown.has(keyOf(rule)))
  const columns: readonly Column<CallerRule>[] = [
    { title: 'Rule', isHeading: true, cell: (rule) => <Rule rule={rule} />, sortBy: ({ policy, rule }) => `${policy} ${rule}` },
    { title: 'Left', cell: (rule) => <Counters rule={rule} />, sortBy: leastShare },
    {
      title: 'Actions',
      cell: (rule) => (
        <CallerActions
          caller={rule}
          selector={rule.selector}
          credentialOf={(key) => (digestKeys(asked).length > 0 ? undefined : typedCredential(asked, key))}
          onReset={isResettable(rule, asked) ? () => (resetting.value = rule) : undefined}
        />
      ),
    },
  ]
  return (
    <>
      <Panel title="Counters" aside="now, in the order of the bundle" isWide>
        <DataTable
          caption="Counters of this caller"
          columns={columns}
          rows={known}
          rowKey={keyOf}
          empty={found.counters_known ? 'No rule counts anything for this caller now.' : 'Counters are not known now.'}
        />
      </Panel>
      {silent.length > 0 && (
        <Panel title="Nothing is counted now" aside="the caller has everything left" isWide>
          <DataTable caption="Rules that count nothing for this caller now" columns={columns} rows={silent} rowKey={keyOf} empty="" />
        </Panel>
      )}
      {resetting.value !== undefined && (
        <ResetDialog
          caller={withCredentials(resetting.value, asked)}
          onReset={({ policy, rule }) => void onReset(`The counters of ${policy} · ${rule} are full.`)}
          onClose={() => (resetting.value = undefined)}
        />
      )}
    </>
  )
}

function Rule({ rule }: { readonly rule: CallerRule }) {
  const { values, depends_on: dependsOn } = rule
  return (
    <>
      <RuleName {...rule} />
      <Caller values={values} />
      {dependsOn.length > 0 && <p class="quiet">Applies only where its match covers {dependsOn.join(', ')} too.</p>}
    </>
  )
}

function Counters({ rule: { counters, unit, holds, override, algorithm } }: { readonly rule: CallerRule }) {
  return (
    <div class="levels">
      {algorithm === 'block' && <p>Every request that it covers gets 403.</p>}
      {algorithm !== 'block' && counters?.length === 0 && <p>No limit.</p>}
      {counters === null && <p>Not known.</p>}
      {counters?.map((counter) => (
        <div key={counter.kind}>
          {counterText(counter, unit)}, <span class="quiet">{refillText(counter)}</span>
          <Level remaining={counter.remaining} limit={counter.limit} />
        </div>
      ))}
      {holds !== null && <p>{formatCount(holds, 'request')} in flight now</p>}
      {override !== null && (
        <p>
          <Badge tone="accent">Override</Badge> <span class="mono quiet">{override}</span>
        </p>
      )}
    </div>
  )
}

function isResettable({ counters, values }: CallerRule, asked: AskedCaller): boolean {
  if (counters === null || counters.length === 0) return false
  return digestKeys(asked).length === 0 || !Object.keys(values).some(isCredential)
}

/** The response has digests, by which no counter is found. */
function withCredentials({ policy, rule, values }: CallerRule, asked: AskedCaller): RuleCaller {
  const itself = (key: string, value: string): string => (isCredential(key) ? (typedCredential(asked, key) ?? value) : value)
  return { policy, rule, values: Object.fromEntries(Object.entries(values).map(([key, value]) => [key, itself(key, value)])) }
}

function leastShare({ counters }: CallerRule): number {
  return Math.min(1, ...(counters ?? []).map(({ remaining, limit }) => remaining / limit))
}

function keyOf({ policy, rule }: CallerRule): string {
  return JSON.stringify([policy, rule])
}
