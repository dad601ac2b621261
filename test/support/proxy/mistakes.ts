import { onTestFinished, vi } from 'vitest'

/** A mistake of our own, made on purpose. */
export const MISTAKE = new TypeError('a mistake')

/** The next call of this method throws; all others work. */
export function breakOnce<T extends object>(prototype: T, method: keyof T & string): void {
  const spy = vi.spyOn(prototype as Record<string, () => void>, method).mockImplementationOnce(() => {
    throw MISTAKE
  })
  onTestFinished(() => spy.mockRestore())
}
