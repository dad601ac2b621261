import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { ask } from '../api.ts'

interface Policies {
  readonly bundle_version: string | null
  readonly policies: readonly { readonly id: string; readonly mode: string }[]
}

export function PoliciesView() {
  const policies = useSignal<Policies['policies']>([])
  useEffect(() => {
    void ask<Policies>('GET', 'policies').then((found) => {
      policies.value = found.policies
    })
  }, [policies])
  return (
    <ul>
      {policies.value.map(({ id, mode }) => (
        <li key={id}>
          {id} <small>{mode}</small>
        </li>
      ))}
    </ul>
  )
}
