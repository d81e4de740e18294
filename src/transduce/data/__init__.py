"""Ids become batches: the store on disk, the plan of an epoch, the padded tensors."""
