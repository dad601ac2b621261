import { expect, test } from 'vitest'
import { fieldName } from './field-name.ts'

test('a field is known by its name, whatever its case', () => {
  for (const name of ['Keep-Alive', 'keep-alive', 'KEEP-ALIVE']) {
    expect(fieldName(name)).toMatchObject({ lower: 'keep-alive', isValid: true, isHopByHop: true })
  }
  expect(fieldName('X-Any')).toMatchObject({ lower: 'x-any', isValid: true, isHopByHop: false })
  for (const name of ['', 'a b', 'a:', 'ü']) expect(fieldName(name).isValid).toBe(false)
})

test('names that somebody makes up do not keep the usual ones from being remembered', () => {
  for (let i = 0; i < 5000; i++) fieldName(`x-made-up-${i}`)
  const first = fieldName('Content-Type')
  expect(fieldName('Content-Type')).toBe(first)
  // Once more among them, it stays.
  for (let i = 0; i < 5000; i++) {
    fieldName(`x-made-up-again-${i}`)
    if (i % 100 === 0) expect(fieldName('Content-Type')).toBe(first)
  }
})
