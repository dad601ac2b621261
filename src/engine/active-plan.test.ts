import { describe, expect, test } from 'vitest'
import { type ActivePlan, PlanSwitch } from './active-plan.ts'

describe('a switch', () => {
  test('has no plan before the first', () => {
    const plans = new PlanSwitch()
    expect([plans.generation, plans.active]).toEqual([0, undefined])
  })

  test('turns for all who share its word, in the moment in which one turns it', () => {
    const word = newWord()
    const [one, other] = [new PlanSwitch(word), new PlanSwitch(word)]
    const [first, second, firstOfOther, secondOfOther] = [newPlan(), newPlan(), newPlan(), newPlan()]
    one.add(1, first)
    other.add(1, firstOfOther)
    expect([one.active, other.active]).toEqual([undefined, undefined])
    one.turnTo(1)
    expect([one.active, other.active, other.generation]).toEqual([first, firstOfOther, 1])
    one.add(2, second)
    other.add(2, secondOfOther)
    expect([one.active, other.active]).toEqual([first, firstOfOther])
    other.turnTo(2)
    expect(one.active).toBe(second)
    expect(other.active).toBe(secondOfOther)
  })

  test('passes over a plan that was made ready and never held', () => {
    const plans = new PlanSwitch()
    const [first, third] = [newPlan(), newPlan()]
    plans.add(1, first)
    plans.turnTo(1)
    plans.add(2, newPlan())
    plans.add(3, third)
    plans.turnTo(3)
    expect(plans.active).toBe(third)
  })

  test('refuses to guess where the active plan was not prepared in this thread', () => {
    const word = newWord()
    const plans = new PlanSwitch(word)
    plans.add(1, newPlan())
    plans.turnTo(1)
    expect(plans.active).toBeDefined()
    new PlanSwitch(word).turnTo(2)
    expect(() => plans.active).toThrow('plan 2 is active and was not prepared in this thread')
  })
})

function newWord(): Int32Array {
  return new Int32Array(new SharedArrayBuffer(4))
}

/** Nobody looks inside. */
function newPlan(): ActivePlan {
  return { plan: {} } as ActivePlan
}
