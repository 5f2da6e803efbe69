-- Row security of stored files.

create function internal.owns_task_folder(object_name text) returns boolean
language plpgsql stable security definer set search_path = ''
as $$
-- NULL for a folder of no task. In plpgsql, which looks tables up when it runs: a later migration creates them.
begin
  return (select coalesce(t.owner_id = auth.uid(), false) from public.tasks t where t.id = internal.object_folder_id(object_name));
end
$$;

create function internal.is_writable_bucket(bucket text) returns boolean
language sql immutable set search_path = ''
as $$
  -- Archives hold what is no longer in the database: only the secret key, with which `openmanus-rl archive` works, changes them.
  select internal.is_workspace_bucket(bucket) and bucket <> 'archives'
$$;

create function internal.owns_object(bucket text, name text, object_owner text) returns boolean
language sql stable set search_path = ''
as $$
  -- Files in the folder of a run, checkpoint or task belong to its owner, all others to their uploader.
  select case
    when not internal.is_writable_bucket(bucket) then false
    when bucket = 'task-files' then coalesce(internal.owns_task_folder(name), object_owner = auth.uid()::text)
    when bucket = 'datasets' or internal.object_folder_id(name) is null then object_owner = auth.uid()::text
    else coalesce(internal.owns_run(internal.object_run_id(bucket, name)), false)
  end
$$;

revoke execute on function internal.owns_task_folder, internal.is_writable_bucket, internal.owns_object from public;
grant execute on function internal.owns_task_folder, internal.is_writable_bucket, internal.owns_object to anon, authenticated, service_role;

create policy "members read workspace files" on storage.objects for select to authenticated
  using (internal.is_workspace_bucket(bucket_id) and (select internal.is_member()));
create policy "anyone reads files of public runs" on storage.objects for select to anon
  using (internal.is_public_run(internal.object_run_id(bucket_id, name)));
create policy "editors add files to what they own" on storage.objects for insert to authenticated
  with check (internal.is_writable_bucket(bucket_id) and ((select internal.is_admin())
    or ((select internal.is_editor()) and internal.owns_object(bucket_id, name, owner_id))));
create policy "owners change their files" on storage.objects for update to authenticated
  using (internal.is_writable_bucket(bucket_id) and ((select internal.is_admin())
    or ((select internal.is_editor()) and internal.owns_object(bucket_id, name, owner_id))))
  with check (internal.is_writable_bucket(bucket_id) and ((select internal.is_admin())
    or ((select internal.is_editor()) and internal.owns_object(bucket_id, name, owner_id))));
create policy "owners delete their files" on storage.objects for delete to authenticated
  using (internal.is_writable_bucket(bucket_id) and ((select internal.is_admin())
    or ((select internal.is_editor()) and internal.owns_object(bucket_id, name, owner_id))));
