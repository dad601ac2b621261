import { newEmbeddedStore } from '../../src/store/embedded-store.ts'
import { describeCounterStore } from './counter-store.ts'
import { describeLimitChange } from './limit-change.ts'

const newStore = () => newEmbeddedStore(256 * 1024)

describeCounterStore('EmbeddedStore', newStore)
describeLimitChange('EmbeddedStore', newStore)
