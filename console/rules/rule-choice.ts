import { batch, type Signal, useSignal } from '@preact/signals'
import { useEffect, useMemo } from 'preact/hooks'
import type { PolicyJson, PolicyPage, RuleJson } from '../../src/admin/api/types.ts'
import { ApiFailure, ask } from '../api.ts'
import { isLost } from '../connection.ts'
import { policiesPath } from '../policies.ts'
import { csrfToken } from '../session.ts'
import { status } from '../status.ts'

/** A rule that an operator is choosing by its names. */
export interface RuleChoice {
  readonly policy: Signal<string>
  readonly rule: Signal<string>
  /** The policy with that name, once it has been looked up; undefined if the active bundle has none. */
  readonly found: Signal<PolicyJson | undefined>
  /** The name that was last looked up. */
  readonly lookedUp: Signal<string | undefined>
  /** Names of policies that match what was typed. */
  readonly suggestions: Signal<readonly string[]>
}

export interface ChoiceProblems {
  readonly policy?: string
  readonly rule?: string
}

/** Delay after the last keystroke before the API is asked. */
const TYPING_MS = 150
/** Nobody reads more suggestions than this. */
const SUGGESTIONS = '50'

/** Asks the API for what is typed, however many policies there are, and again when the bundle changes. */
export function useRuleChoice(policyId: string, ruleName: string): RuleChoice {
  const [policy, rule, found] = [useSignal(policyId), useSignal(ruleName), useSignal<PolicyJson | undefined>(undefined)]
  const [lookedUp, suggestions] = [useSignal<string | undefined>(undefined), useSignal<readonly string[]>([])]
  const choice = useMemo(() => ({ policy, rule, found, lookedUp, suggestions }), [policy, rule, found, lookedUp, suggestions])
  const typed = policy.value
  const hash = status.value?.bundle?.hash
  const isAsking = !isLost.value && csrfToken.value !== null
  useEffect(() => {
    if (!isAsking) return
    const timer = setTimeout(() => void lookUp(choice).catch(ignoreLost), TYPING_MS)
    return () => clearTimeout(timer)
  }, [choice, typed, hash, isAsking])
  return choice
}

/** Asks the API at once, for a choice that is about to be used. */
export async function lookUp({ policy, found, lookedUp, suggestions }: RuleChoice): Promise<void> {
  const typed = policy.value
  const [exact, similar] = await Promise.all([policiesBy({ policy: typed }), policiesBy({ search: typed, limit: SUGGESTIONS })])
  if (policy.value !== typed) return
  batch(() => {
    found.value = typed === '' ? undefined : exact[0]
    lookedUp.value = typed
    suggestions.value = similar.map(({ id }) => id)
  })
}

/** Returns the chosen rule if the active bundle has it. The only rule of a policy need not be chosen. */
export function chosenRule({ policy, found, lookedUp, rule }: RuleChoice): RuleJson | undefined {
  if (lookedUp.value !== policy.value) return undefined
  const rules = found.value?.rules ?? []
  return rules.find(({ name }) => name === rule.value) ?? (rules.length === 1 ? rules[0] : undefined)
}

/** Says why there is no rule yet. */
export function choiceProblems({ policy, found }: RuleChoice): ChoiceProblems {
  if (policy.value === '') return { policy: 'Choose a policy.' }
  return found.value === undefined ? { policy: 'The active bundle has no such policy.' } : { rule: 'Choose a rule.' }
}

async function policiesBy(parameters: Readonly<Record<string, string>>): Promise<readonly PolicyJson[]> {
  try {
    return (await ask<PolicyPage>('GET', policiesPath(parameters))).policies
  } catch (error) {
    if (error instanceof ApiFailure) return []
    throw error
  }
}

/** A lookup that fails is repeated when the connection is back. */
function ignoreLost(): void {}
